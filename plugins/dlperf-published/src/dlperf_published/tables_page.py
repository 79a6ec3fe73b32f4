"""The regenerated tables of a collection as blocks of a page, with notes on printed cells that differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dlperf_published.disagreements import Mismatch, grids, mismatches
from dlperf_published.footnotes import footnotes
from dlperf_published.grid import Grid, Square
from dlperf_published.observations import DOES_NOT, HOLDS, PARTLY, Observation, observations
from dlperf_sdk.interfaces.collection import Figures
from dlperf_sdk.reports.blocks import Block, Cell, Column, Notes, Paragraph, Table, Tone
from dlperf_sdk.reports.series import format_fact
from dlperf_sdk.reports.wording import format_value

_TONES: Mapping[str, Tone] = {HOLDS: "good", PARTLY: "doubt", DOES_NOT: "bad"}
_WIDEST = 5
"""Columns of a table; one with more is turned on its side."""
_LONGEST = 30
"""Letters of a row's name that is not broken into lines."""


def blocks(figures: Figures) -> list[Block]:
    """Return the tables of a collection with notes, then its footnotes and its observations, as blocks of a page.

    A cell whose printed value differs from the computed one refers to a note with the reason. A table with more than
    five columns is transposed.

    Args:
        figures: All figures of the collection, not a part of them.

    Raises:
        KeyError: The collection is not one of this distribution.
    """
    mismatched = mismatches(figures)
    content: list[Block] = []
    for grid in grids(figures):
        content += _grid(grid, [mismatch for mismatch in mismatched if mismatch.cell.table == grid.name])
    content += _statements(footnotes(figures), "Footnotes of the summaries")
    content += _statements(observations(figures), "Observations")
    return content


def _grid(grid: Grid, mismatched: Sequence[Mismatch]) -> list[Block]:
    """Return a table, and the notes that its cells refer to."""
    notes: list[str] = []
    note_numbers: dict[tuple[str, str], list[str]] = {}
    for mismatch in mismatched:
        note = (
            f"{mismatch.reason} ({mismatch.cell.document}:{mismatch.cell.line})"
            if _is_number(mismatch)
            else mismatch.reason
        )
        _point(note_numbers, notes, (mismatch.cell.row, mismatch.cell.column), note)
    for row, squares in grid.rows.items():
        for column, square in zip(grid.columns, squares, strict=True):
            if "precision" in square.claims and not square.values:
                note = f"no figure with precision {square.claims['precision']} is published"
                _point(note_numbers, notes, (row, column), note)
    marks = {index: f" [{','.join(numbers)}]" for index, numbers in note_numbers.items()}
    if grid.name == "speedup" and len(grid.columns) == 1:
        table = _figures(grid, marks)
    elif len(grid.columns) > _WIDEST:
        table = _table(
            grid.title,
            "",
            tuple(f"{row}" for row in grid.rows),
            {
                column: [(grid.rows[row][index], marks.get((row, column), "")) for row in grid.rows]
                for index, column in enumerate(grid.columns)
            },
        )
    else:
        table = _table(
            grid.title,
            grid.corner,
            grid.columns,
            {
                row: [
                    (square, marks.get((row, column), ""))
                    for column, square in zip(grid.columns, squares, strict=True)
                ]
                for row, squares in grid.rows.items()
            },
        )
    footnotes: list[Block] = [Notes(tuple(notes))] if notes else []
    return [table, *footnotes, *(Paragraph(text, "quiet") for text in _describe_differences(grid))]


def _point(
    note_numbers: dict[tuple[str, str], list[str]], notes: list[str], index: tuple[str, str], note: str
) -> None:
    """Make a cell refer to a note, which is added unless it is there."""
    if note not in notes:
        notes.append(note)
    number = str(notes.index(note) + 1)
    if number not in note_numbers.setdefault(index, []):
        note_numbers[index].append(number)


def _is_number(mismatch: Mismatch) -> bool:
    return "is printed" in mismatch.reason


def _table(
    title: str, corner: str, columns: Iterable[str], rows: Mapping[str, Sequence[tuple[Square, str]]]
) -> Table:
    cells: list[tuple[Cell | str, ...]] = []
    for name, row in rows.items():
        content = [Cell(_lines(square, mark), "doubt" if mark else "plain") for square, mark in row]
        cells.append((name, *content))
    # Names are kept whole where there is room for them.
    is_whole = max(map(len, rows)) <= _LONGEST
    heads = (
        Column(corner, whole=is_whole),
        *(Column(_heading(column), right=column != "Source") for column in columns),
    )
    return Table(heads, tuple(cells), title)


def _heading(column: str) -> str:
    """Return a column's title without the words that the table's title has."""
    return column.removesuffix(" throughput")


def _lines(square: Square, mark: str) -> str:
    """Return a cell's values and its mark, a line each where words distinguish the values."""
    if square.words:
        return square.words + mark
    on_lines = any(value.suffix.startswith(" ") for value in square.values)
    text = ("\n" if on_lines else ", ").join(value.text for value in square.values) or "–"
    return text.replace(" bsz=", "\nbsz=") + ("\n" + mark.strip() if on_lines and mark else mark)


def _figures(grid: Grid, marks: Mapping[tuple[str, str], str]) -> Table:
    """Return a table of every figure with its speedup."""
    rows = []
    for row, (square,) in grid.rows.items():
        for value in square.values:
            (figure,) = value.figures
            names = [figure.framework, figure.framework_version, figure.implementation, figure.model]
            names += [figure.precision, *([figure.compiler] if figure.compiler != "none" else [])]
            names += [format_fact(*option) for option in sorted(figure.options.items())]
            mark = marks.get((row, "speedup"), "")
            rows.append(
                (
                    " ".join(names),
                    str(figure.batch_size),
                    str(figure.topology),
                    f"{figure.throughput:.2f}",
                    Cell(value.text + mark, "doubt" if mark else "plain"),
                )
            )
    columns = (
        Column("case"),
        Column("batch", right=True),
        Column("topology", right=True),
        Column("throughput", right=True),
        Column("speedup", right=True),
    )
    return Table(columns, tuple(rows), "Every figure, and its speedup over one device")


_MIXED = ("clip_norm", "estimator", "loss_scale")


def _describe_differences(grid: Grid) -> list[str]:
    """Return notes on differences among the figures of a table that its headings do not state."""
    figures = [
        figure
        for squares in grid.rows.values()
        for square in squares
        for value in square.values
        for figure in value.figures
    ]
    if grid.name == "speedup" or not figures:
        return []
    notes = []
    for name in _MIXED:
        values = list(dict.fromkeys(figure.value(name) for figure in figures))
        if len(values) > 1:
            content = ", ".join(
                "not stated" if value is None else format_value(name, str(value)) for value in values
            )
            notes.append(f"The figures of this table do not share one {name.replace('_', ' ')}: {content}.")
    return notes


def _statements(statements: Sequence[Observation], title: str) -> list[Block]:
    rows = [
        (
            Cell(statement.outcome, _TONES.get(statement.outcome, "quiet")),
            statement.printed,
            statement.derived,
        )
        for statement in statements
    ]
    columns = (Column("outcome", whole=True), Column("the source says"), Column("its figures say"))
    return [Table(columns, tuple(rows), title)] if rows else []
