"""Docstrings of functions are imperative, and names are words that explain themselves."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", *(f"{path.relative_to(ROOT)}" for path in sorted(ROOT.glob("[pe][lx]*s/*/src"))))

NOT_VERBS = frozenset(
    "A An All Another Any Both Each Every For How If In It Its Name No None Nothing Of On One Only Other So Some Such "
    "That The Their These They This Those To Two What When Where Whether Which Who Whose Why With Without".split()
)
"""Words that begin a noun clause, not an imperative."""
VERBS_IN_S_OR_ED = frozenset(
    "Address Bring Bypass Compress Discuss Embed Express Feed Guess Pass Press Process Ring Seed Shed".split()
)
"""Imperatives that end like a third person, a participle or a gerund."""


@cache
def functions():
    """Return `FILE:LINE`, node and whether it is a property, of each function of the distributions."""
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    is_property = any("property" in ast.unparse(line) for line in node.decorator_list)
                    found.append((f"{path.relative_to(ROOT)}:{node.lineno}", node, is_property))
    return found


def is_imperative(summary):
    """Return False if the first word cannot be an imperative verb."""
    word = re.split(r"[ ,:.]", summary, maxsplit=1)[0]
    if not re.fullmatch(r"[A-Z][a-z-]+", word) or word in NOT_VERBS:
        return False
    return word in VERBS_IN_S_OR_ED or not word.endswith(("s", "ed", "ing", "ly", "tion"))


if __name__ == "__main__":
    n=0
    for place,node,prop in functions():
        d=ast.get_docstring(node)
        if d and not prop and not node.name.startswith('test_') and not is_imperative(d.split('\n')[0]):
            n+=1; print(place,node.name,'|',d.split('\n')[0])
    print(n)
