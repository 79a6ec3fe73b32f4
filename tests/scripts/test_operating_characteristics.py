"""The page of operating characteristics is what its script computes: one row of each table is computed again."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

SCRIPT = Path(__file__).parents[2] / "scripts" / "operating_characteristics.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("operating_characteristics", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("number", range(11))
def test_row_equals_the_scripts_result(script, number):
    rows = script.TABLES[number].rows
    row = rows[-1] if number == 1 else rows[0]
    assert row.line() in script.DOCUMENT.read_text().splitlines()


def test_the_page_has_all_rows_and_texts(script):
    page = script.DOCUMENT.read_text()
    assert page.startswith(script.INTRODUCTION)
    assert len(script.TABLES) == 11
    for table in script.TABLES:
        assert f"## {table.title}\n\n{table.text}\n\n{table.header}\n" in page
        for row in table.rows:
            assert page.count(f"\n| {row.first_cells} | ") >= 1
