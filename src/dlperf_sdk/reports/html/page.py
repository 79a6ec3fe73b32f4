"""Define an HTML report as plain values: sections of blocks, plots and tables that can be sorted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from dlperf_sdk.reports.blocks import Block, Table, Tone


@frozen
class Tile:
    """A headline number."""

    label: str
    value: str
    aside: str = ""
    tone: Tone = "plain"


@frozen
class Plot:
    """A plot, with a description and a table of its numbers."""

    title: str
    description: str
    draw: Callable[[], Mapping[str, Any]]
    """The function that returns the Vega-Lite specification."""
    numbers: Table
    open: bool = False
    """True if the numbers are shown without a request."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """The Vega-Lite specification."""
        return self.draw()


@frozen
class Sortable:
    """A table that its reader sorts, searches and filters."""

    table: Table
    filters: tuple[str, ...] = ()
    """Titles of the columns that are filtered by their values."""
    page_rows: int = 50
    """Rows that are shown at a time."""


@frozen
class Folded:
    """Content that is shown on request."""

    title: str
    items: tuple[Item, ...]
    tone: Tone = "plain"


@frozen
class Abreast:
    """Plots that stand side by side where there is room."""

    items: tuple[Plot, ...]


Item = Abreast | Block | Plot | Sortable | Folded


@frozen
class Section:
    """A part of the report, with a place in its table of contents."""

    title: str
    items: tuple[Item, ...]
    lede: str = ""
    folded: bool = False
    """True if the section is shown on request."""


@frozen
class Page:
    """The whole report. A section without items is not shown."""

    title: str
    lede: str
    tiles: tuple[Tile, ...]
    sections: tuple[Section, ...]
    colophon: str
    """Program that made the report, and its inputs."""
