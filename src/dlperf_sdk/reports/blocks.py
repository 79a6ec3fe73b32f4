"""Define the blocks of a report: headings, labelled lines, tables and notes, as plain values.

Whoever has something to say makes blocks; `terminal` and `markdown` show the same blocks in their own ways.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from attrs import field, frozen

Tone = Literal["plain", "quiet", "good", "bad", "doubt"]
"""Tone of a text. Color only ever repeats what the words say."""


@frozen
class Cell:
    """A text and how it is meant."""

    text: str
    tone: Tone = "plain"


def _cell(value: Cell | str) -> Cell:
    return value if isinstance(value, Cell) else Cell(value)


def _rows(rows: Iterable[Iterable[Cell | str]]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(tuple(map(_cell, row)) for row in rows)


def _pairs(pairs: Iterable[tuple[str, Cell | str]]) -> tuple[tuple[str, Cell], ...]:
    return tuple((label, _cell(value)) for label, value in pairs)


@frozen
class Heading:
    """Title of the blocks under it; `aside` is a word on the outcome."""

    text: str
    aside: Cell = Cell("")


@frozen
class Paragraph:
    """Running text."""

    text: str
    tone: Tone = "plain"


@frozen
class Labels:
    """Labels and their values, one below the other."""

    pairs: tuple[tuple[str, Cell], ...] = field(converter=_pairs)


@frozen
class Column:
    """A table's column; numbers stand on the right."""

    title: str
    right: bool = False
    whole: bool = False
    """Its cells are not broken into lines; those of numbers never are."""
    key: bool = False
    """Its cells name the row: on a narrow screen they stand together, as the row's heading."""


@frozen
class Table:
    """Rows of as many cells as there are columns."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...] = field(converter=_rows)
    title: str = ""


@frozen
class Notes:
    """Footnotes, counted from 1: `[1]` in a table points at the first."""

    texts: tuple[str, ...]


@frozen
class Verbatim:
    """Lines as they are, such as those of a script: they are never broken anew."""

    text: str
    title: str = ""


Block = Heading | Paragraph | Labels | Table | Notes | Verbatim
