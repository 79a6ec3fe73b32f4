"""Blocks as text for a terminal or a pipe, readable at 80 columns and without color."""

from __future__ import annotations

import io
from collections.abc import Iterable

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from dlperf_sdk.documents.json_values import replace_control_characters
from dlperf_sdk.reports.blocks import (
    Block,
    Cell,
    Heading,
    Labels,
    Notes,
    Paragraph,
    Table,
    Tone,
    Verbatim,
)

_STYLES: dict[Tone, str] = {
    "plain": "",
    "quiet": "dim",
    "good": "green",
    "bad": "bold red",
    "doubt": "yellow",
}


MIN_WIDTH = 12
"""Minimum width of a column of running text, in characters."""
GAP = 2
"""Number of spaces between columns."""


def text_of(blocks: Iterable[Block], *, styled: bool = False, width: int | None = None) -> str:
    """Return blocks as text, with an empty line between them and no spaces at the ends of lines.

    Args:
        blocks: The blocks.
        styled: True for color, unless NO_COLOR is set.
        width: Width in characters; None: the variable COLUMNS, else that of the terminal, else 80.
    """
    console = Console(
        file=io.StringIO(), force_terminal=styled, width=width, highlight=False, markup=False, emoji=False
    )
    with console.capture() as captured:
        for index, block in enumerate(blocks):
            if index:
                console.print()
            console.print(render(block), soft_wrap=isinstance(block, Verbatim))
    # Rich pads lines to a table's width.
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def escape_lines(text: str) -> str:
    """Return a text, such as CSV, with its control characters replaced, so that a terminal shows it as it is.

    Line ends CRLF become LF.
    """
    return replace_control_characters(text.replace("\r\n", "\n"))


def render(block: Block) -> RenderableType:
    """Return one block as an object that rich can print, with control characters replaced."""
    match block:
        case Heading():
            line = Text(_on_one_line(block.text), "bold")
            return line.append("  ").append(_line(block.aside)) if block.aside.text else line
        case Paragraph():
            return _line(Cell(block.text, block.tone))
        case Labels():
            grid = Grid.grid(padding=(0, 2))
            grid.add_column(style="bold", no_wrap=True)
            grid.add_column(overflow="fold")
            for label, value in block.pairs:
                grid.add_row(_on_one_line(label), _text(value))
            return grid
        case Table():
            return _table(block)
        case Notes():
            grid = Grid.grid(padding=(0, 1))
            grid.add_column(style="dim", no_wrap=True)
            grid.add_column(style="dim", overflow="fold")
            for number, note in enumerate(block.texts, 1):
                grid.add_row(f"[{number}]", Text(_on_one_line(note)))
            return grid
        case Verbatim():
            title = Text(f"{_on_one_line(block.title)}\n" if block.title else "", "bold")
            return title.append(Text(replace_control_characters(block.text.rstrip("\n"))))


class _Fitted:
    """A table where there is room for it; on a narrower terminal its rows, one below the other, a line per cell."""

    def __init__(self, block: Table) -> None:
        self.block = block

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield _grid(self.block) if minimum_width(self.block) <= options.max_width else _rows(self.block)


def minimum_width(block: Table) -> int:
    """Return the smallest width in characters in which a table is readable, the gaps between its columns included.

    In a narrower table, numbers would be cut short, or text would be broken every few letters.
    """
    widths = []
    for i, column in enumerate(block.columns):
        widest = max((cell_len(line) for row in block.rows for line in row[i].text.splitlines()), default=0)
        foldable = not (column.right or column.whole)
        widths.append(max(cell_len(column.title), min(widest, MIN_WIDTH) if foldable else widest))
    return sum(widths) + GAP * max(0, len(widths) - 1)


def _rows(block: Table) -> RenderableType:
    """Render each row as its first cell, with the other non-empty cells and their titles below it."""
    parts: list[RenderableType] = []
    titles = max((len(column.title) for column in block.columns[1:]), default=0)
    for index, row in enumerate(block.rows):
        if index:
            parts.append(Text(""))
        first = f"{block.columns[0].title} " if block.columns[0].right else ""
        parts.append(Text(_on_one_line(first), "bold").append(_line(row[0])))
        for column, cell in zip(block.columns[1:], row[1:], strict=True):
            if cell.text:
                grid = Grid.grid(padding=(0, GAP))
                grid.add_column(style="dim", no_wrap=True)
                # As in a table, numbers are not broken into lines.
                grid.add_column(overflow="ellipsis" if column.right else "fold", no_wrap=column.right)
                grid.add_row(_on_one_line(column.title).ljust(titles), _text(cell))
                parts.append(Padding(grid, (0, 0, 0, GAP)))
    return Group(*parts)


def _table(block: Table) -> RenderableType:
    fitted = _Fitted(block)
    if not block.title:
        return fitted
    return Group(Text(_on_one_line(block.title), "bold"), Padding(fitted, (0, 0, 0, 2)))


def _grid(block: Table) -> RenderableType:
    grid = Grid(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold underline")
    for column in block.columns:
        # A number that is cut short would read as another number, so it gets an ellipsis.
        is_whole = column.right or column.whole
        grid.add_column(
            Text(_on_one_line(column.title)),
            justify="right" if column.right else "left",
            overflow="ellipsis" if is_whole else "fold",
            no_wrap=is_whole,
        )
    for row in block.rows:
        grid.add_row(_line(row[0]), *map(_text, row[1:]))
    return grid


def _line(cell: Cell) -> Text:
    """Render a cell at the margin."""
    return Text(_on_one_line(cell.text), _STYLES[cell.tone])


def _on_one_line(text: str) -> str:
    """Return a text without line breaks: what follows one at the margin would look like a text of its own."""
    return replace_control_characters(text.replace("\n", " "))


def _text(cell: Cell) -> Text:
    return Text(replace_control_characters(cell.text), _STYLES[cell.tone])
