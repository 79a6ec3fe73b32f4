"""A regenerated table: computed values with the figures that they come from, and nothing typed by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from dlperf_sdk.interfaces.figure import PublishedFigure


@frozen
class Value:
    """One computed number of a cell."""

    number: float
    decimals: int = 2
    suffix: str = ""
    """A unit sign, or a mark that distinguishes it from the other values of the cell."""
    figures: tuple[PublishedFigure, ...] = ()
    """The figures that it was computed from."""
    slack: float = 0.0
    """The error that the rounding of those figures may cause."""

    @property
    def text(self) -> str:
        """The number, rounded half up as in spreadsheets, and its suffix."""
        return f"{half_up(self.number, self.decimals)}{self.suffix}"


@frozen
class Square:
    """A cell: its values, or none where there is no figure to compute one from."""

    values: tuple[Value, ...] = ()
    claims: Mapping[str, Any] = field(factory=dict)
    """The facts that the table's headings state about the cell."""
    words: str = ""
    """The text of a cell that is not of numbers."""

    @property
    def text(self) -> str:
        """The words or the values as text."""
        return self.words or ", ".join(value.text for value in self.values) or "–"


@frozen
class Grid:
    """A table, its rows and columns named as in the source."""

    name: str
    title: str
    corner: str
    """The heading of the rows' names."""
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[Square, ...]]

    def square(self, row: str, column: str) -> Square | None:
        """Return a cell; None where the table has no such row or column."""
        if row not in self.rows or column not in self.columns:
            return None
        return self.rows[row][self.columns.index(column)]


def half_up(number: float, decimals: int) -> str:
    """Format a number ≥ 0 with so many decimals; a half is rounded up, even if its binary form is slightly below."""
    scaled = math.floor(number * 10**decimals + 0.5 + 1e-7)
    return f"{scaled / 10**decimals:.{decimals}f}"
