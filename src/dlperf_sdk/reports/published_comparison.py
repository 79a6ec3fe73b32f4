"""Comparison of results with published figures of the same framework, model, topology and precision."""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.analysis.comparison import Comparison, compare
from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.interfaces.collection import Collection
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.reports.blocks import Block, Cell, Column, Heading, Notes, Paragraph, Table
from dlperf_sdk.reports.labels import batch_size, title
from dlperf_sdk.reports.numbers import quantity
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.data_source import DATA_SOURCES


def compare_with_published(results: Sequence[Result], collection: Collection) -> list[Block]:
    """Return a heading, a table of results and published figures of the same cases, and notes.

    The table has a row for each result; after it come rows for the collection's figures of the same framework, model,
    topology and precision. Notes state what else differs between a result and a figure. If such a difference rules out
    a comparison, the ratio has a question mark. For each result without a valid throughput or without such a figure,
    there is a paragraph instead of rows. Without rows, there is no table and no notes.
    """
    rows: list[tuple[Cell | str, ...]] = []
    notes: list[str] = []
    reasons: list[str] = []
    figures_by_case = _group_by_case(collection)
    for result in results:
        try:
            case = Case.from_source(result)
        except AnalysisError as error:
            reasons.append(str(error))
            continue
        topology = (case.topology.nodes, case.topology.devices_per_node)
        figures = figures_by_case.get((topology, *(case.facts.get(name) for name in _CASE_FACTS)), [])
        if not figures:
            reasons.append(f"{collection.name} has no figure of {_name(result)}.")
            continue
        result_row = (
            _name(result),
            batch_size(result.spec),
            quantity(case.throughput, case.unit),
            "",
            "yours",
        )
        rows.append(result_row)
        rows += [_row(compare(case, figure, footnoted=True), figure, notes) for figure in figures]
    blocks: list[Block] = [Heading(f"Comparison with {collection.title}")]
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
    return [*blocks, *(Paragraph(text, "quiet") for text in dict.fromkeys(reasons))]


def _name(result: Result) -> str:
    """Return the title of a result's case, followed by its data source if that is not the default."""
    source = result.spec.data.source
    return title(result) if source == DATA_SOURCES.default else f"{title(result)} · {source}"


_CASE_FACTS = ("framework", "model", "precision")


def _group_by_case(collection: Collection) -> dict[tuple[object, ...], list[PublishedFigure]]:
    figures: dict[tuple[object, ...], list[PublishedFigure]] = {}
    for figure in collection.figures:
        topology = (figure.topology.nodes, figure.topology.devices_per_node)
        figures.setdefault((topology, *(getattr(figure, name) for name in _CASE_FACTS)), []).append(figure)
    return figures


def _row(compared: Comparison, figure: PublishedFigure, notes: list[str]) -> tuple[Cell | str, ...]:
    remarks = []
    if compared.reasons:
        remarks.append(f"Not comparable: {'; '.join(compared.reasons)}.")
    differences = [*compared.factors, *compared.footnotes]
    if differences:
        remarks.append(f"They differ as well in {'; '.join(differences)}.")
    text = " ".join([*remarks, *figure.footnotes])
    mark = ""
    if text:
        if text not in notes:
            notes.append(text)
        mark = f" [{notes.index(text) + 1}]"
    # A case at small size has a small ratio, which three decimals would show as zero.
    ratio = f"{compared.ratio:.3f}" if compared.ratio >= 0.01 else f"{compared.ratio:.2g}"
    return (
        "",
        f"{figure.batch_size:,}",
        quantity(figure.throughput, figure.unit),
        Cell(f"{ratio} ?", "doubt") if compared.reasons else ratio,
        f"{figure.implementation}, {figure.hardware}, {figure.date}{mark}",
    )
