"""Find the cells in which a source prints a value that its own figures do not give."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import frozen

from dlperf_published import dlperf, spreadsheet, tensorpack
from dlperf_published.grid import Grid, Square, Value
from dlperf_published.source_data import Printed, load_printed_cells
from dlperf_sdk.interfaces.collection import Disagreement, Figures
from dlperf_sdk.interfaces.figure import PublishedFigure

_TABLES = {
    "dlperf-v1.0": dlperf.tables,
    "tf-cnn-2017": spreadsheet.tables,
    "tensorpack": tensorpack.tables,
}
_NUMBER = re.compile(r"[0-9]+(?:\.([0-9]+))?")
_NOT_A_NUMBER = re.compile(r"\[[0-9]+\]|bsz=[0-9]+")


@frozen
class Mismatch:
    """A printed cell that the figures contradict, with the value that they give, and an explanation."""

    cell: Printed
    """The cell as printed."""
    computed: str
    """The text of the computed cell; `–` if there is no figure for it."""
    reason: str
    """Explanation of the difference, a clause without a full stop."""
    difference: float | None = None
    """The printed number over the computed one, minus 1; None if the number is right."""
    is_rounding: bool = False
    """True if the printed number, read with the decimals of its table, is at most one unit of the last one away from
    the computed number."""
    figure: PublishedFigure | None = None
    """The figure of a printed speedup; None for a cell of a table with several figures."""

    def to_disagreement(self) -> Disagreement:
        """Return the mismatch as a `Disagreement`.

        The field `cell` of the `Disagreement` names the row and the column of the printed cell. If the mismatch has a
        `figure`, it names the case of this figure instead.
        """
        cell, figure = self.cell, self.figure
        place = f"{cell.row}, {cell.column}"
        if figure is not None:
            version = figure.framework_version.partition("+")[0]
            place = (
                f"speedup of {figure.framework} {version} {figure.model} {figure.topology} {figure.precision}, "
                f"batch {figure.batch_size}"
            )
        return Disagreement(
            cell.document,
            cell.line,
            place,
            cell.text,
            self.computed,
            self.reason,
            self.difference,
            is_rounding=self.is_rounding,
        )


def grids(figures: Figures) -> tuple[Grid, ...]:
    """Return all tables of a collection's documents, computed from its figures, in the order of the documents.

    Args:
        figures: All figures of the collection, not a part of them.

    Raises:
        KeyError: The collection is not one of this distribution.
    """
    return _TABLES[figures.collection](figures)


def cells(figures: Figures) -> tuple[Printed, ...]:
    """Return the cells of all tables as the source documents print them, then a cell for each printed speedup.

    A printed speedup is the speedup over one device that a source prints beside a figure. Its cell belongs to the table
    `speedup`, and the cell's row names the place of the figure in the source. Footnotes, observations and statements
    about memory are not included.

    Args:
        figures: All figures of the collection. Their field `printed_speedup` holds the printed speedups.

    Raises:
        FileNotFoundError: The collection is not one of this distribution.
    """
    column = tuple(
        Printed(
            "speedup",
            str(figure.source),
            "speedup",
            f"{figure.printed_speedup:g}",
            figure.source.document,
            figure.source.line,
        )
        for figure in figures
        if figure.printed_speedup is not None
    )
    statements = ("observations", "footnotes", "memory")
    return (
        tuple(cell for cell in load_printed_cells(figures.collection) if cell.table not in statements)
        + column
    )


def mismatches(figures: Figures) -> tuple[Mismatch, ...]:
    """Return a mismatch for each reason why a printed cell is wrong; empty if the figures confirm all cells.

    They are in the order of `cells`, so that those of the printed speedups come last.

    Args:
        figures: All figures of the collection, not a part of them.

    Raises:
        KeyError: The collection is not one of this distribution.
    """
    by_name = {grid.name: grid for grid in grids(figures)}
    by_source = {str(figure.source): figure for figure in figures}
    result: list[Mismatch] = []
    for cell in cells(figures):
        square = by_name[cell.table].square(cell.row, cell.column)
        result += [
            Mismatch(
                cell,
                square.text if square else "–",
                reason,
                difference,
                is_rounding,
                by_source.get(cell.row) if cell.table == "speedup" else None,
            )
            for reason, difference, is_rounding in dict.fromkeys(_reasons(cell, square, figures))
        ]
    return tuple(result)


def numbers(text: str) -> list[tuple[float, int]]:
    """Return a list of (number, count of its decimals) for the numbers in a cell's text, in order.

    The list is empty if the text has no numbers. Batch sizes (`bsz=64`) and marks of footnotes (`[1]`) are left out.
    """
    bare = _NOT_A_NUMBER.sub(" ", text)
    return [(float(match[0]), len(match[1] or "")) for match in _NUMBER.finditer(bare)]


def agrees(number: float, decimals: int, value: Value) -> bool:
    """Return True if a printed number is a computed number, rounded to the decimals that are printed.

    The two may differ by half a unit of the last printed decimal.

    Args:
        number: The printed number.
        decimals: Number of printed decimals.
        value: The computed number.
    """
    return abs(number - value.number) <= 0.5 * 10.0**-decimals + 1e-9


def _reasons(
    cell: Printed, square: Square | None, figures: Figures
) -> Iterator[tuple[str, float | None, bool]]:
    """Yield each reason why a printed cell is wrong, a wrong number's relative difference, and if it is rounding."""
    if square is not None and square.words:
        if cell.text != square.words:
            yield f"{cell.text} is printed, where the figures are of {square.words}", None, False
        return
    values = square.values if square else ()
    printed_numbers = numbers(cell.text)
    if len(printed_numbers) != len(values):
        yield f"{len(printed_numbers)} printed, {len(values)} in the figures", None, False
        return
    for (number, decimals), value in zip(printed_numbers, values, strict=True):
        if not agrees(number, decimals, value):
            difference = number / value.number - 1 if value.number else None
            # A number with fewer decimals than its table has is not rounded like the others.
            digits = max(decimals, value.decimals)
            is_rounding = (
                not value.quantity and abs(number - round(value.number, digits)) <= 10.0**-digits + 1e-9
            )
            reason = f"{number:.{decimals}f} is printed{_describe_origin(number, value, figures)}"
            yield reason, difference, is_rounding
        claims = square.claims if square else {}
        for name, claimed in claims.items():
            real = {figure.value(name) for figure in value.figures} - {claimed}
            for actual in real:
                reason = f"{name.replace('_', ' ')} is {actual}, under a heading that says {claimed}"
                yield reason, None, False


def _describe_origin(number: float, value: Value, figures: Figures) -> str:
    """Describe where a wrong number comes from, if that can be found."""
    if not value.figures:
        quantity = f" as the {value.quantity}" if value.quantity else ""
        return f"{quantity}, where the figures have {value.text}"
    for own_figure in value.figures:
        for other in figures:
            if other.throughput == number and _kin(own_figure, other):
                differing = [
                    f"{name.replace('_', ' ')} {other.value(name)} instead of {own_figure.value(name)}"
                    for name in own_figure.roles()
                    if other.value(name) != own_figure.value(name)
                ]
                return f", which is the figure with {', '.join(differing)}"
    ratio = number / value.number - 1
    difference = f", {abs(ratio):.2%} {'more' if ratio > 0 else 'less'} than the figures give"
    if abs(number - value.number) <= 0.5 * 10.0**-value.decimals + value.slack:
        difference += "; the rounding of the throughputs may explain it"
    return difference


def _kin(figure: PublishedFigure, other: PublishedFigure) -> bool:
    return (figure.framework, figure.model, figure.topology) == (other.framework, other.model, other.topology)
