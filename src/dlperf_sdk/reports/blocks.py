"""The blocks of a report: headings, labelled lines, tables and notes, as plain values.

Modules that report something return blocks; `terminal` and `markdown` render the same blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from attrs import evolve, field, frozen

Tone = Literal["plain", "quiet", "good", "bad", "doubt"]
"""Tone of a text. Color only repeats what the words say."""


@frozen
class Cell:
    """A text with its tone."""

    text: str
    tone: Tone = "plain"
    link: str = ""
    """Relative address of a page on it, in HTML; empty for none."""


ABSENT = Cell("–", "quiet")
"""Cell in place of a value that does not exist."""


def interval_cell(low: float | None, high: float | None, write: Callable[[float, float], str]) -> Cell:
    """Return the cell of an interval; `ABSENT`, the cell of a missing value, if an end is None.

    Args:
        low: Lower end.
        high: Upper end.
        write: Function that takes both ends, and returns the text of the cell.
    """
    return ABSENT if low is None or high is None else Cell(write(low, high))


def _cell(value: Cell | str) -> Cell:
    return value if isinstance(value, Cell) else Cell(value)


def _rows(rows: Iterable[Iterable[Cell | str]]) -> tuple[tuple[Cell, ...], ...]:
    return tuple(tuple(map(_cell, row)) for row in rows)


def _pairs(pairs: Iterable[tuple[str, Cell | str]]) -> tuple[tuple[str, Cell], ...]:
    return tuple((label, _cell(value)) for label, value in pairs)


@frozen
class Heading:
    """Title of the blocks that follow."""

    text: str
    aside: Cell = Cell("")
    """A few words beside the title, such as an outcome."""


@frozen
class Paragraph:
    """Running text."""

    text: str
    tone: Tone = "plain"


@frozen
class Labels:
    """Labels with their values, one pair per line."""

    pairs: tuple[tuple[str, Cell], ...] = field(converter=_pairs)
    """Labels and values, in order; a value may be given as a text."""


@frozen
class Column:
    """Column of a table."""

    title: str
    right: bool = False
    """True for numbers, which are aligned to the right."""
    whole: bool = False
    """True if the cells are not broken into lines; numbers never are."""
    key: bool = False
    """True if the cells name the row. On a narrow screen of the HTML report they form the row's heading."""


@frozen
class Table:
    """A table; each row has as many cells as there are columns."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...] = field(converter=_rows)
    """The cells of each row; a cell may be given as a text."""
    title: str = ""
    """Title above the table; empty without one."""

    def select(self, indexes: Sequence[int]) -> Table:
        """Return a table with only the columns at these indexes, in the order of the indexes.

        Raises:
            IndexError: There is no such column.
        """
        columns = tuple(self.columns[index] for index in indexes)
        return evolve(self, columns=columns, rows=[[row[index] for index in indexes] for row in self.rows])

    def without_empty_columns(self) -> Table:
        """Return a table without the columns in which all cells are empty; without rows, it has no columns."""
        return self.select(
            [index for index in range(len(self.columns)) if any(row[index] != Cell("") for row in self.rows)]
        )


@frozen
class Notes:
    """Footnotes, numbered from 1: `[1]` in a table refers to the first."""

    texts: tuple[str, ...]
    name: str = ""
    """Name that links of the HTML report refer to; empty without one."""


@frozen
class Verbatim:
    """Text that is shown unchanged, such as a script. Long lines are not wrapped."""

    text: str
    title: str = ""
    """Title above the text; empty without one."""


Block = Heading | Paragraph | Labels | Table | Notes | Verbatim
