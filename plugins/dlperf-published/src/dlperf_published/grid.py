"""A regenerated table: values computed from figures, with nothing typed by hand."""

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
    """Number of decimals to print."""
    suffix: str = ""
    """A unit, or a mark that distinguishes the number from the other values of its cell."""
    figures: tuple[PublishedFigure, ...] = ()
    """The figures that the number was computed from; may be empty."""
    slack: float = 0.0
    """The largest error that the rounding of those figures may cause in the number."""
    quantity: str = ""
    """Name of an exact quantity, such as `number of GPUs`; empty for a measured number, which is rounded."""

    @property
    def text(self) -> str:
        """The number with its decimals, rounded half up as in spreadsheets, and the suffix."""
        return f"{half_up(self.number, self.decimals)}{self.suffix}"


@frozen
class Square:
    """A cell of a computed table. It has values, or words, or neither if no figure gives a value."""

    values: tuple[Value, ...] = ()
    claims: Mapping[str, Any] = field(factory=dict)
    """Facts about the cell's figures that the headings of the table state: name of a field → value."""
    words: str = ""
    """The text of a cell that holds no numbers; empty for a cell with values."""

    @property
    def text(self) -> str:
        """The words if there are any, else the values joined by commas, or `–` if there are none."""
        return self.words or ", ".join(value.text for value in self.values) or "–"


@frozen
class Grid:
    """A table whose rows and columns have the names that the source gives them."""

    name: str
    """Name that the printed cells of the table refer to."""
    title: str
    """Title to print above the table."""
    corner: str
    """Heading of the column with the rows' names."""
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[Square, ...]]
    """Name of a row → its cells, one per column."""

    def square(self, row: str, column: str) -> Square | None:
        """Return the cell in the row and the column with these names; None if the table has no such row or column."""
        if row not in self.rows or column not in self.columns:
            return None
        return self.rows[row][self.columns.index(column)]


def half_up(number: float, decimals: int) -> str:
    """Return a number ≥ 0 as text, rounded half up to the given number of decimals.

    A number whose binary form is slightly below a half is rounded up as well.
    """
    scaled = math.floor(number * 10**decimals + 0.5 + 1e-7)
    return f"{scaled / 10**decimals:.{decimals}f}"
