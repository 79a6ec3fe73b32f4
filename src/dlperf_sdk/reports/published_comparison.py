"""Published figures beside one's own results: the same framework, model, topology and precision, and what differs."""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.analysis.comparison import Comparison, compare
from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.published import Published, PublishedFigure
from dlperf_sdk.reports.blocks import Block, Cell, Column, Heading, Notes, Paragraph, Table
from dlperf_sdk.reports.labels import batch_size, title
from dlperf_sdk.reports.numbers import quantity
from dlperf_sdk.results.result import Result


def beside(results: Sequence[Result], collection: Published) -> list[Block]:
    """A row for each result and for each of the collection's figures that goes with it.

    The footnotes say what is not comparable: a difference in the workload, the data or the estimator makes a ratio
    that answers no question, and has a question mark.
    """
    rows: list[tuple[Cell | str, ...]] = []
    notes: list[str] = []
    without: list[str] = []
    alike = _by_case(collection)
    for result in results:
        try:
            case = Case.of(result)
        except AnalysisError as error:
            without.append(str(error))
            continue
        topology = (case.topology.nodes, case.topology.devices_per_node)
        figures = alike.get((topology, *(case.facts.get(name) for name in _SAME)), [])
        if not figures:
            without.append(f"{collection.name} has no figure of {title(result)}.")
            continue
        own = (
            title(result),
            batch_size(result.spec),
            quantity(case.throughput, case.unit),
            "",
            "yours",
        )
        rows.append(own)
        rows += [_row(compare(case, figure, footnoted=True), figure, notes) for figure in figures]
    blocks: list[Block] = [Heading(f"Beside {collection.title}")]
    if rows:
        columns = (
            Column("case"),
            Column("batch", right=True),
            Column("throughput", right=True),
            Column("yours ÷ theirs", right=True),
            Column("whose"),
        )
        blocks.append(Table(columns, tuple(rows)))
        blocks.append(Notes(tuple(notes)))
    return [*blocks, *(Paragraph(said, "quiet") for said in dict.fromkeys(without))]


_SAME = ("framework", "model", "precision")


def _by_case(collection: Published) -> dict[tuple[object, ...], list[PublishedFigure]]:
    found: dict[tuple[object, ...], list[PublishedFigure]] = {}
    for figure in collection:
        topology = (figure.topology.nodes, figure.topology.devices_per_node)
        found.setdefault((topology, *(getattr(figure, name) for name in _SAME)), []).append(figure)
    return found


def _row(compared: Comparison, figure: PublishedFigure, notes: list[str]) -> tuple[Cell | str, ...]:
    said = []
    if compared.reasons:
        said.append(f"Not comparable: {'; '.join(compared.reasons)}.")
    others = [*compared.factors, *compared.footnotes]
    if others:
        said.append(f"They differ as well in {'; '.join(others)}.")
    text = " ".join([*said, *figure.footnotes])
    mark = ""
    if text:
        if text not in notes:
            notes.append(text)
        mark = f" [{notes.index(text) + 1}]"
    ratio = f"{compared.ratio:.3f}"
    return (
        "",
        f"{figure.batch_size:,}",
        quantity(figure.throughput, figure.unit),
        Cell(f"{ratio} ?", "doubt") if compared.reasons else ratio,
        f"{figure.implementation}, {figure.hardware}, {figure.date}{mark}",
    )
