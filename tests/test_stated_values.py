"""A docstring that states a constant's value, as in "`LIMIT` (1 %)", states the present one."""

import ast
import re

from test_language import ROOT, SOURCES

STATED = re.compile(r"`(?:\w+\.)?([A-Z][A-Z0-9_]+)` \(([\d,.]*\d)(?: (%|KiB|MiB|s))?\)")
UNITS = {None: 1, "s": 1, "%": 0.01, "KiB": 1 << 10, "MiB": 1 << 20}


def constants(text):
    """Return name → number of a module's constants, which are products, sums or powers of numbers."""
    values = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                value = eval(ast.unparse(node.value), {"__builtins__": {}})
            except Exception:  # it needs other names
                continue
            if isinstance(value, int | float):
                values[node.targets[0].id] = value
    return values


def wrong_values(texts):
    """Return `FILE: statement` for each stated value that is not that of the constant in its or another module."""
    own = {path: constants(text) for path, text in texts.items()}
    wrong = []
    for path, text in texts.items():
        for statement in STATED.finditer(text):
            name, digits, unit = statement.groups()
            stated = float(digits.replace(",", "")) * UNITS[unit]
            modules = [own[path]] if name in own[path] else own.values()
            values = [values[name] for values in modules if name in values]
            if values and not any(abs(stated - value) <= 1e-9 * abs(value) for value in values):
                wrong.append(f"{path}: {statement[0]}")
    return wrong


def test_stated_values_are_those_of_the_constants():
    texts = {path.relative_to(ROOT): path.read_text(encoding="utf-8") for path in SOURCES}
    assert sum(len(STATED.findall(text)) for text in texts.values()) > 80
    assert not wrong_values(texts)


def test_wrong_values_are_detected():
    size = 'SIZE = 2 * 1024\n"""At most `SIZE` (3 KiB), or `a.SIZE` (2 KiB)."""\n'
    other = '"""At most `SIZE` (2,048), `a.SIZE` (1) or `UNKNOWN` (1)."""\n'
    assert wrong_values({"a.py": size, "b.py": other}) == ["a.py: `SIZE` (3 KiB)", "b.py: `a.SIZE` (1)"]
