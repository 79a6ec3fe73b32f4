"""The table of results as CSV (RFC 4180): writing and reading."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

from dlperf_sdk.documents.json_values import replace_control_characters
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.results.result import Result
from dlperf_sdk.results.table import COLUMNS, METRIC_PARTS, Row, Value, columns, rows

_UNMARKED = re.compile(
    r"""^(?=[\s"]*[=+@＝＋－＠'-]|[\t\n])|(?<=[;\t\n])(?=(?:[^\S\t\n]|")*[=+@＝＋－＠'-]|[\t\n])"""
)
"""Places in a cell before text that a spreadsheet would execute, or before an apostrophe. Some spreadsheets also split
at semicolons, tabs and line feeds, and ignore a quotation mark inside of a line. Only the first place looks beyond a
tab or line feed: if each did, a cell of many blank lines would take quadratic time."""
_MARKED = re.compile(r"(^|[;\t\n])'")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:+/-]{,200}")
"""Texts that are written unchanged, as most are."""
LONGEST_CELL = 32767
"""Maximum length of a cell in characters: that of spreadsheets. Python's reader of CSV refuses 131,073."""


def to_csv(results: Sequence[Result]) -> str:
    """Return the table of results as CSV (RFC 4180): a header, then a line per result, in order.

    The columns are those of `dlperf_sdk.results.table.columns`: its `COLUMNS`, then the metrics in alphabetical order,
    each with a column for its value, both ends of its interval, and its unit.

    - A value that is None is an empty text.
    - Numbers are written so that they read back exactly; those that are not finite are nan, inf and -inf.
    - A text that a spreadsheet would take for a formula gets an apostrophe in front, and so does a text that begins
      with an apostrophe. Formulas begin with = + - @, also full-width or after white space.
      Some spreadsheets split a text after a semicolon, a tab or a line feed. There, too, an apostrophe is inserted if a
      formula or an apostrophe follows. `read_csv` removes all these apostrophes.
    - In texts, `�` replaces unprintable characters. A text of more than `LONGEST_CELL` (32,767) characters is cut to
      this length and ends with an ellipsis.
    """
    return csv_text([column.name for column in columns(results)], (row.values() for row in rows(results)))


def csv_text(header: Sequence[str], lines: Iterable[Iterable[Value]]) -> str:
    """Return any table as CSV (RFC 4180): a header, then a line per row, each of which ends with CR and LF.

    A value that is None is an empty text, and a boolean is `true` or `false`. Numbers are written so that they read
    back exactly; those that are not finite are nan, inf and -inf. Texts are changed as `to_csv` describes: an
    apostrophe marks what a spreadsheet would take for a formula, unprintable characters are replaced, and a text of
    more than `LONGEST_CELL` (32,767) characters is cut.

    Args:
        header: Titles of the columns.
        lines: Rows, each with the values of the columns in order.
    """
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(map(_escape, header))
    writer.writerows([_format_cell(value) for value in line] for line in lines)
    return file.getvalue()


def _format_cell(value: Value) -> Value:
    """Return what `csv` writes for a value: it writes numbers exactly, and None as an empty text."""
    if isinstance(value, str):
        return _escape(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def _escape(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    cell = _UNMARKED.sub("'", replace_control_characters(text))
    return cell if len(cell) <= LONGEST_CELL else f"{cell[: LONGEST_CELL - 1]}…"


def read_csv(text: str) -> list[Row]:
    """Return the rows of a table that `to_csv` wrote, in order: for each row, name of a column → its value.

    A value is a text, a number or a boolean, as its column requires; None if it is empty in the CSV.

    Raises:
        DocumentError: The text is not such a table; the message names the line.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    kinds = {column.name: column.kind for column in COLUMNS}
    table_rows: list[Row] = []
    try:
        names = [_unescape(name) for name in next(reader, [])]
        if names[: len(COLUMNS)] != list(kinds):
            raise ValueError("its first columns are not those of a table of results")
        parts = [kind for _, kind, _ in METRIC_PARTS]
        kind_of = [*kinds.values(), *(parts * (len(names) // len(parts) + 1))][: len(names)]
        for cells in reader:
            if len(cells) != len(names):
                raise ValueError(f"{len(cells)} cells under {len(names)} columns")
            table_rows.append(
                {
                    name: _parse_cell(kind, cell)
                    for name, kind, cell in zip(names, kind_of, cells, strict=True)
                }
            )
    except (csv.Error, ValueError) as error:
        raise DocumentError(
            f"Line {reader.line_num} of the CSV is not a line of a table of results: {error}."
        ) from None
    return table_rows


def _parse_cell(kind: Any, cell: str) -> Value:
    if not cell:
        return None
    if kind is bool:
        if cell not in ("true", "false"):
            raise ValueError(f"{cell[:80]!r} is neither true nor false")
        return cell == "true"
    value: Value = _unescape(cell) if kind is str else kind(cell)
    return value


def _unescape(cell: str) -> str:
    return _MARKED.sub(r"\1", cell)
