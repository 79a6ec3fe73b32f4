"""Blocks on a terminal, or in a pipe: readable at 80 columns and without colour."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from dlperf_sdk.report.blocks import Block, Cell, Heading, Labels, Notes, Paragraph, Table, Tone, visible

_STYLES: dict[Tone, str] = {
    "plain": "",
    "quiet": "dim",
    "good": "green",
    "bad": "bold red",
    "doubt": "yellow",
}


def text_of(blocks: Iterable[Block], *, styled: bool = False, width: int | None = None) -> str:
    """Blocks, an empty line between them; with colours (unless NO_COLOR is set) where they are `styled`.

    The width is the terminal's, or COLUMNS, or 80, unless given.
    """
    console = Console(
        file=io.StringIO(), force_terminal=styled, width=width, highlight=False, markup=False, emoji=False
    )
    with console.capture() as captured:
        for index, block in enumerate(blocks):
            if index:
                console.print()
            console.print(rendered(block))
    # rich fills lines up to a table's width.
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def harmless(text: str) -> str:
    """Lines that are no blocks, such as those of a table in CSV, as a terminal may have them."""
    return visible(text.replace("\r\n", "\n"))


def rendered(block: Block) -> RenderableType:
    """One block, as rich shows it."""
    match block:
        case Heading():
            line = Text(visible(block.text), "bold")
            return line.append("  ").append(_text(block.aside)) if block.aside.text else line
        case Paragraph():
            return _text(Cell(block.text, block.tone))
        case Labels():
            grid = Grid.grid(padding=(0, 2))
            grid.add_column(style="bold", no_wrap=True)
            grid.add_column(overflow="fold")
            for label, value in block.pairs:
                grid.add_row(visible(label), _text(value))
            return grid
        case Table():
            return _table(block)
        case Notes():
            grid = Grid.grid(padding=(0, 1))
            grid.add_column(style="dim", no_wrap=True)
            grid.add_column(style="dim", overflow="fold")
            for number, note in enumerate(block.texts, 1):
                grid.add_row(f"[{number}]", Text(visible(note)))
            return grid


def _table(block: Table) -> RenderableType:
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold underline")
    for column in block.columns:
        # A number that is cut short reads as another number, so where it does not fit it says so.
        whole = column.right or column.whole
        grid.add_column(
            Text(column.title),
            justify="right" if column.right else "left",
            overflow="ellipsis" if whole else "fold",
            no_wrap=whole,
        )
    for row in block.rows:
        grid.add_row(*map(_text, row))
    if not block.title:
        return grid
    return Group(Text(visible(block.title), "bold"), Padding(grid, (0, 0, 0, 2)))


def _text(cell: Cell) -> Text:
    return Text(visible(cell.text), _STYLES[cell.tone])
