"""The HTML report as plain values: sections of blocks, plots and sortable tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from attrs import frozen

from dlperf_sdk.reports.blocks import Block, Cell, Table, Tone

NOT_COMPARABLE = "What is not comparable"
"""Title of the section that says which differences prevent a comparison, and why."""


WITH_RESERVATIONS = "with reservations"
"""Text of the link from an answer to its reservations."""


@frozen
class Tile:
    """A headline number at the top of the report."""

    label: str
    """What the number is, above it."""
    value: str
    """The number, or the answer in a few words."""
    aside: str = ""
    """Details below the number; empty for none."""
    tone: Tone = "plain"
    section: str = ""
    """Title of the section that has the details, which the tile links to; empty without one."""
    excluded: str = ""
    """Cases that are not comparable, with the facts in which they differ; `NOT_COMPARABLE` has the reasons."""
    is_reserved: bool = False
    """True if the answer has reservations, which `section` lists."""
    note: int = 0
    """Number of the note that has the reservations, if the page has such notes; 0 for none."""

    @property
    def text(self) -> str:
        """All that stands below the number: the details, the reservations and the excluded cases; may be empty."""
        parts = [self.aside, *([WITH_RESERVATIONS] if self.is_reserved else [])]
        parts += [f"not comparable: {self.excluded}"] if self.excluded else []
        return "; ".join(filter(None, parts))


@frozen
class Plot:
    """A plot, with a description and a table of its numbers."""

    title: str
    description: str
    """Sentences that say what the plot shows, for readers who do not see it."""
    draw: Callable[[], Mapping[str, Any]]
    """Function that returns the Vega-Lite specification. It needs the extra `report`."""
    numbers: Table | None = None
    """The plot's numbers; None if a table beside the plot has them."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """The Vega-Lite specification; each access builds it again.

        Raises:
            ModuleNotFoundError: The extra `report` is not installed.
        """
        return self.draw()


@frozen
class Sortable:
    """A table that readers can sort, search and filter."""

    table: Table
    filters: tuple[str, ...] = ()
    """Titles of the columns that readers can filter by value."""
    page_rows: int = 50
    """Number of rows that are shown at a time; a table with at most a quarter more is shown whole."""

    @property
    def step(self) -> int:
        """Number of rows of the first page: `page_rows`, or all rows if there are at most a quarter more of them."""
        count = len(self.table.rows)
        return count if count <= 1.25 * self.page_rows else self.page_rows


@frozen
class Folded:
    """Content that is shown after a click on its title."""

    title: str
    items: tuple[Item, ...]
    tone: Tone = "plain"


@frozen
class Choice:
    """Parts of which one is shown at a time. The reader selects it; the first one is shown at the start."""

    label: str
    """Name of the selector."""
    options: tuple[Folded, ...]


@frozen
class Abreast:
    """Plots that are placed side by side if there is room. A legend that they share is shown once."""

    items: tuple[Plot, ...]


Item = Abreast | Block | Choice | Plot | Sortable | Folded


@frozen
class Section:
    """A part of the report, with an entry in the table of contents."""

    title: str
    items: tuple[Item, ...]
    lede: str = ""
    """Introductory sentences; empty without any."""
    folded: bool = False
    """True if the section is shown after a click on its title."""
    answer: str = ""
    """The gist in one line, which a folded section shows beside its title; empty without one."""


@frozen
class Page:
    """The whole report."""

    title: str
    lede: str
    """Introductory sentences below the title; empty without any."""
    tiles: tuple[Tile, ...]
    """The tiles, in order."""
    sections: tuple[Section, ...]
    """The sections, in order."""
    colophon: str
    """Program that made the report, and its inputs."""
    aliases: Mapping[str, str] = MappingProxyType({})
    """Another word that readers search for → the word that the tables have."""
    parent: Cell | None = None
    """Link to the page that lists this one, with its title; None if this one stands alone."""
