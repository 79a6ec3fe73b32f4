"""Data inside a page: JSON that cannot end its element, and a policy that lets nothing but our own scripts run."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from typing import Any

from dlperf_sdk.documents.json_values import replace_control_characters
from dlperf_sdk.reports.blocks import Cell
from dlperf_sdk.reports.html.page import Sortable

LONGEST = 300
"""Letters of a cell or a name that are shown. The whole of it is in the result."""
LONGEST_PROSE = 2000

_LONG_WORD = 48

# What could end the element, begin another, or be no JavaScript.
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&'\u2028\u2029"}


def text(value: str, longest: int = LONGEST) -> str:
    """Return a text for the page: no control characters or changes of direction, and at most `longest` letters."""
    visible = replace_control_characters(value)
    return visible if len(visible) <= longest else f"{visible[:longest]}… ({len(visible):,} letters)"


def to_json(value: Any) -> str:
    """Return ASCII JSON for a `<script type="application/json">`.

    Raises:
        ValueError: there is a number in it that is not finite.
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def policy(scripts: Iterable[str]) -> str:
    """Return a Content-Security-Policy that allows these scripts, styles in the page, and no requests."""
    sources = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    return f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def classes(cell: Cell) -> str:
    """Return a cell's CSS classes: its tone, and `long` if a word in it must be broken."""
    longest = max(map(len, cell.text.split()), default=0)
    return f"{cell.tone} long" if longest > _LONG_WORD else cell.tone


def filters(sortable: Sortable) -> list[int]:
    """Return the indexes of a table's columns that readers can filter by their values."""
    return [index for index, column in enumerate(sortable.table.columns) if column.title in sortable.filters]


def rows(sortable: Sortable) -> dict[str, Any]:
    """Return a table for the script that shows it: each column's distinct cells, and rows of their indices."""
    distinct: list[dict[Cell, int]] = [{} for _ in sortable.table.columns]
    numbered = [
        [known.setdefault(cell, len(known)) for known, cell in zip(distinct, row, strict=True)]
        for row in sortable.table.rows
    ]
    return {
        "cells": [[[text(cell.text), classes(cell)] for cell in known] for known in distinct],
        "right": [column.right for column in sortable.table.columns],
        "rows": numbered,
    }
