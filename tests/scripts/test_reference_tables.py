"""The tables of reference pages: the committed pages have what the declarations and schemas say now."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

import reference_tables


@pytest.mark.parametrize("name", reference_tables.PAGES)
def test_committed_pages_have_the_current_tables(name):
    text = (reference_tables.REFERENCE / f"{name}.md").read_text(encoding="utf-8")
    tables = reference_tables.PAGES[name]()
    assert tables.count("\n|") > 5
    assert reference_tables.fill_in(text, tables) == text, "Run scripts/reference_tables.py."
    assert reference_tables.fill_in(text, "other") != text


def test_a_page_without_marks_is_refused():
    with pytest.raises(ValueError, match="not found"):
        reference_tables.fill_in("# A page", "table")
