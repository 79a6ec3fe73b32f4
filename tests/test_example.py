"""The example is what it says: a complete, short plugin with two models, and its references."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "dlperf-numpy"
COUNTED = (
    EXAMPLE / "pyproject.toml",
    *sorted((EXAMPLE / "src").rglob("*.py")),
    EXAMPLE / "test_conformance.py",
)
LEAST_SHARE = 0.15
"""Of the lines, those that explain."""


def lines_of_code(path):
    """Lines that hold anything but comments, docstrings and blanks."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        return sum(bool(line.partition("#")[0].strip()) for line in text.splitlines())
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node)
        for line in range(node.body[0].lineno, node.body[0].end_lineno + 1)
    }
    silent = (
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    )
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in silent
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(code - docstrings)


def test_the_plugin_its_pyproject_and_its_test_have_as_many_lines_as_the_tutorial_says(record_property):
    counted = {str(path.relative_to(EXAMPLE)): lines_of_code(path) for path in COUNTED}
    record_property("lines", sum(counted.values()))
    assert len(counted) == 5
    tutorial = (EXAMPLE.parents[1] / "docs" / "tutorials" / "framework-plugin.md").read_text(encoding="utf-8")
    assert f"It has {sum(counted.values())} lines of code" in tutorial, counted


@pytest.mark.parametrize(
    "path", [path for path in COUNTED if "framework" in path.name or "worker" in path.name]
)
def test_it_is_explained(path):
    text = path.read_text(encoding="utf-8")
    explained = sum(line.lstrip().startswith(("#", '"""')) for line in text.splitlines())
    assert explained > LEAST_SHARE * lines_of_code(path)


def test_references_equal_their_scripts_output(tmp_path):
    script = (EXAMPLE / "references.py").read_text(encoding="utf-8")
    place = 'PLACE = Path(__file__).parent / "src" / "dlperf_numpy" / "references"'
    assert place in script
    copy = tmp_path / "references.py"
    copy.write_text(script.replace(place, "PLACE = Path(__file__).parent / 'made'"), encoding="utf-8")
    subprocess.run([sys.executable, str(copy)], check=True)
    for shipped in sorted((EXAMPLE / "src" / "dlperf_numpy" / "references").glob("*.json")):
        created = json.loads((tmp_path / "made" / shipped.name).read_text())
        cases = json.loads(shipped.read_text())["cases"]
        for case in (*cases.values(), *created["cases"].values()):
            del case["noise"]  # of float32, whose rounding depends on the order of summation
        same(cases, created["cases"])


def same(one, other):
    """Equal, numbers to the last digits: another NumPy may sum in another order."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, list):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            same(a, b)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-12)
    else:
        assert one == other
