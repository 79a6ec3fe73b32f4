"""Every cell in which what a source prints and what its own figures give are not the same."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import frozen

from dlperf_published import dlperf, spreadsheet, tensorpack
from dlperf_published.grid import Grid, Square, Value
from dlperf_published.source_data import Printed, printed
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
    """A printed cell, what the figures give instead, and why they differ."""

    cell: Printed
    computed: str
    reason: str

    def as_disagreement(self) -> Disagreement:
        """Return it as the interface of collections has it."""
        cell = self.cell
        place = "speedup" if cell.row.endswith(f":{cell.line}") else f"{cell.row}, {cell.column}"
        return Disagreement(cell.document, cell.line, place, cell.text, self.computed, self.reason)


def grids(figures: Figures) -> tuple[Grid, ...]:
    """The tables of a collection's documents, regenerated."""
    return _TABLES[figures.collection](figures)


def cells(figures: Figures) -> tuple[Printed, ...]:
    """Everything that is printed in the tables, the figures' own speedups among it."""
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
    said = ("observations", "footnotes")
    return tuple(cell for cell in printed(figures.collection) if cell.table not in said) + column


def mismatches(figures: Figures) -> tuple[Mismatch, ...]:
    """Return every reason for which a printed cell is wrong, in the order of the documents' tables."""
    by_name = {grid.name: grid for grid in grids(figures)}
    found: list[Mismatch] = []
    for cell in cells(figures):
        square = by_name[cell.table].square(cell.row, cell.column)
        found += [
            Mismatch(cell, square.text if square else "–", reason)
            for reason in dict.fromkeys(_reasons(cell, square, figures))
        ]
    return tuple(found)


def numbers(text: str) -> list[tuple[float, int]]:
    """The numbers that a cell prints, each with its decimals; batch sizes and footnotes' marks are none."""
    bare = _NOT_A_NUMBER.sub(" ", text)
    return [(float(match[0]), len(match[1] or "")) for match in _NUMBER.finditer(bare)]


def agrees(number: float, decimals: int, value: Value) -> bool:
    """Whether a printed number is the computed one, rounded to the decimals that are printed."""
    return abs(number - value.number) <= 0.5 * 10.0**-decimals + 1e-9


def _reasons(cell: Printed, square: Square | None, figures: Figures) -> Iterator[str]:
    values = square.values if square else ()
    shown = numbers(cell.text)
    if len(shown) != len(values):
        yield f"{len(shown)} printed, {len(values)} in the figures"
        return
    for (number, decimals), value in zip(shown, values, strict=True):
        if not agrees(number, decimals, value):
            yield f"{number:.{decimals}f} is printed{_instead(number, value, figures)}"
        claims = square.claims if square else {}
        for name, claimed in claims.items():
            real = {figure.value(name) for figure in value.figures} - {claimed}
            for each in real:
                yield f"{name.replace('_', ' ')} is {each}, under a heading that says {claimed}"


def _instead(number: float, value: Value, figures: Figures) -> str:
    """Where a wrong number comes from, where that can be found."""
    if not value.figures:
        return f", where the figures have {value.text}"
    for mine in value.figures:
        for other in figures:
            if other.throughput == number and _kin(mine, other):
                differing = [
                    f"{name.replace('_', ' ')} {other.value(name)} instead of {mine.value(name)}"
                    for name in mine.roles()
                    if other.value(name) != mine.value(name)
                ]
                return f", which is the figure with {', '.join(differing)}"
    ratio = number / value.number - 1
    told = f", {abs(ratio):.2%} {'more' if ratio > 0 else 'less'} than the figures give"
    if abs(number - value.number) <= 0.5 * 10.0**-value.decimals + value.slack:
        told += "; the rounding of the throughputs may explain it"
    return told


def _kin(mine: PublishedFigure, other: PublishedFigure) -> bool:
    return (mine.framework, mine.model, mine.topology) == (other.framework, other.model, other.topology)
