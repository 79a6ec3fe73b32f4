"""Data inside the page: JSON that cannot end its element, and a policy that allows no scripts but the page's own."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable
from typing import Any

from dlperf_sdk.documents.json_values import replace_control_characters
from dlperf_sdk.reports.blocks import ABSENT, Cell
from dlperf_sdk.reports.html.page import Sortable

LONGEST = 300
"""Maximum number of characters of a cell or a name; the result has the whole text."""
LONGEST_PROSE = 2000
"""Maximum number of characters of running text."""

_LONG_WORD = 48
_PROSE = 80
"""Number of characters from which a cell of a sortable table gets a wide column."""
_BRIEF = 24
"""Maximum number of characters of a cell that shares a line with others on a narrow screen."""

_MARK = re.compile(r" (?=(?:\*|\[\d+\])$)", re.MULTILINE)
"""Space before a mark at the end of a line."""

# Characters that could end the element or begin another, or that JavaScript refuses.
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&'\u2028\u2029"}


def text(value: str, longest: int = LONGEST) -> str:
    """Return a text for the page: with control characters replaced, and cut if it is long. It is not escaped for HTML.

    A text of more than `longest` characters, by default 300, is cut there; `…` and its original length follow. A
    mark such as `[1]` or `*` at the end of a line stays on the line of the word before it.
    """
    visible = _MARK.sub(
        "\N{NO-BREAK SPACE}", replace_control_characters(value.replace("\N{NO-BREAK SPACE}", " "))
    )
    return visible if len(visible) <= longest else f"{visible[:longest]}… ({len(visible):,} letters)"


def to_json(value: Any) -> str:
    """Return a value as ASCII JSON for a `<script type="application/json">`, with `<`, `>`, `&` and `'` escaped.

    Raises:
        ValueError: A number is not finite.
        TypeError: JSON cannot represent the value.
    """
    return json.dumps(value, allow_nan=False, separators=(",", ":")).translate(_ESCAPES)


def policy(scripts: Iterable[str], from_files: bool) -> str:
    """Return a Content-Security-Policy that allows exactly these scripts, styles in the page, and no requests.

    Args:
        scripts: The exact texts of the scripts in the page, which are allowed by their SHA-256.
        from_files: True to also allow scripts that are files of the same site.
    """
    sources = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    if from_files:
        sources = f"'self' file: {sources}"
    return f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def classes(cell: Cell) -> str:
    """Return the CSS classes of a cell, separated by spaces.

    They are its tone and at most one of these, the first that applies: `absent` for the cell of a missing value, `long`
    if a word has more than 48 characters, `prose` for a text of more than 80, `brief` for a text of at most 24.
    """
    if cell == ABSENT:
        return f"{cell.tone} absent"
    longest = max(map(len, cell.text.split()), default=0)
    if longest > _LONG_WORD:
        return f"{cell.tone} long"
    if len(cell.text) > _PROSE:
        return f"{cell.tone} prose"
    return f"{cell.tone} brief" if len(cell.text) <= _BRIEF else cell.tone


def filters(sortable: Sortable) -> list[int]:
    """Return the indexes of the columns that readers of a table can filter by value, in ascending order.

    A name in `sortable.filters` that is not the title of a column is ignored.
    """
    return [index for index, column in enumerate(sortable.table.columns) if column.title in sortable.filters]


def rows(sortable: Sortable) -> dict[str, Any]:
    """Return a table as JSON values for the script that shows it.

    The keys are `cells` (per column, the distinct cells as lists of text, CSS classes and, if it has one, the link),
    `right` (per column, True if it is aligned to the right) and `rows` (per row, the index of each cell in its column's
    list).
    """
    distinct: list[dict[Cell, int]] = [{} for _ in sortable.table.columns]
    numbered = [
        [known.setdefault(cell, len(known)) for known, cell in zip(distinct, row, strict=True)]
        for row in sortable.table.rows
    ]
    return {
        "cells": [
            [[text(cell.text), classes(cell), *([cell.link] if cell.link else [])] for cell in known]
            for known in distinct
        ],
        "right": [column.right for column in sortable.table.columns],
        "rows": numbered,
    }
