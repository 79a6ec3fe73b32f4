"""The HTML report on a collection of published figures."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

import dlperf_sdk
from dlperf_sdk.analysis.case import Case, cases
from dlperf_sdk.analysis.ranking import Ranking, rankings
from dlperf_sdk.analysis.scaling import efficiency, speedup
from dlperf_sdk.interfaces.collection import Collection, Disagreement, Figures
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.reports.blocks import Cell, Column, Table
from dlperf_sdk.reports.collection_page import count_places, disagreement_table
from dlperf_sdk.reports.html import differences, effects, intervals, leaders, rates, scaling, sweeps
from dlperf_sdk.reports.html.page import Page, Section, Sortable, Tile
from dlperf_sdk.reports.html.summary import fastest_tiles, join_names
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.reports.series import format_fact, merge, workloads


def page(collection: Collection) -> Page:
    """Return the report on a collection: its figures with their sources, the source's tables, and analyses."""
    measured = cases(collection.figures)
    merged = merge(measured)
    by_workload = workloads(merged)
    ranked = rankings(run.case for run in merged)
    disagreements = collection.disagreements()
    contradicted = disagreement_table(collection)
    sections = (
        leaders.section(ranked),
        scaling.section(by_workload),
        effects.section([run.case for run in merged], FACTORS),
        *sweeps.sections(merged),
        Section(
            "Disagreements in the source",
            (
                Sortable(contradicted, page_rows=_PAGE_ROWS)
                if isinstance(contradicted, Table)
                else contradicted,
            ),
        ),
        _figures(collection.figures, measured),
        evolve(rates.section(by_workload), folded=True),
        Section(
            "The source's tables, regenerated",
            tuple(collection.tables()),
            "Computed from the figures. A note marks a cell whose printed value differs.",
            folded=True,
        ),
        evolve(differences.section(by_workload), folded=True),
        intervals.section(merged, ranked),
    )
    return Page(
        title=collection.title,
        lede=_lede(collection),
        tiles=_tiles(collection.figures, disagreements, ranked),
        sections=tuple(section for section in sections if section.items),
        colophon=f"Made by dlperf-sdk {dlperf_sdk.__version__} from figures that are installed as data.",
    )


_PAGE_ROWS = 12
FACTORS = ("compiler", "precision", "clip_norm", "data", "input_pipeline", "hardware", "batch_size")


def _lede(collection: Collection) -> str:
    figures = collection.figures
    models = join_names(figures.values("model"))
    return f"{collection.description} Models: {models}."


def _tiles(
    figures: Figures, disagreements: Sequence[Disagreement], ranked: Sequence[Ranking]
) -> tuple[Tile, ...]:
    places = count_places(disagreements)
    documents = {figure.source.document for figure in figures}
    description = (
        f"in {len(figures):,} figures from {format_count(len(documents), 'document')}: cells that the figures "
        "contradict, and deviations from the source's protocol"
    )
    return (
        *fastest_tiles(ranked, 3),
        Tile(
            "Disagreements in the source",
            format_count(places, "place") if places else "none",
            description,
            "doubt" if places else "good",
            "Disagreements in the source",
        ),
    )


def _figures(figures: Figures, candidates: Sequence[Case]) -> Section:
    """Return a table of every figure: its case, the printed numbers, derived ones, and its source."""
    # A baseline has the same model and batch size: searching only there is faster.
    groups: dict[tuple[str, int], list[Case]] = {}
    for case in candidates:
        groups.setdefault((str(case.facts.get("model")), case.batch_size), []).append(case)
    rows = [_row(figure, groups[figure.model, figure.batch_size]) for figure in figures]
    columns = (
        *(Column(name, key=True) for name in ("framework", "model", "topology")),
        Column("batch", right=True, key=True),
        Column("precision", key=True),
        Column("throughput", right=True),
        Column("unit"),
        Column("speedup", right=True),
        Column("printed", right=True),
        Column("efficiency", right=True),
        *(Column(name) for name in ("version", "implementation", "compiler", "strategy", "data", "hardware")),
        Column("further"),
        Column("estimator"),
        Column("source"),
        Column("footnotes"),
    )
    visible = [
        index
        for index, column in enumerate(columns)
        if column.title in _ALWAYS or any(_text(row[index]) for row in rows)
    ]
    table = Table(
        tuple(columns[index] for index in visible),
        tuple(tuple(row[index] for index in visible) for row in rows),
        f"{format_count(len(figures), 'figure')}, each with the document and the line that it stands in",
    )
    filters = (
        "framework",
        "implementation",
        "model",
        "topology",
        "precision",
        "compiler",
        "data",
        "hardware",
        "batch",
    )
    return Section("Every figure", (Sortable(table, filters, _PAGE_ROWS),))


_ALWAYS = ("framework", "model", "topology", "batch", "throughput", "source")


def _text(cell: Cell | str) -> str:
    return cell.text if isinstance(cell, Cell) else cell


def _row(figure: PublishedFigure, candidates: Sequence[Case]) -> tuple[Cell | str, ...]:
    faster, scaled = speedup(figure, candidates).value, efficiency(figure, candidates).value
    none = Cell("–", "quiet")
    details = ", ".join(
        f"{name.replace('_', ' ')} {value}" if isinstance(value, str) else format_fact(name, value)
        for name, value in sorted(figure.options.items())
    )
    return (
        figure.framework,
        figure.model,
        str(figure.topology),
        str(figure.batch_size),
        figure.precision,
        f"{figure.throughput:,}".removesuffix(".0"),
        figure.unit,
        none if faster is None else f"{faster:.2f}",
        "" if figure.printed_speedup is None else f"{figure.printed_speedup:g}",
        none if scaled is None else f"{scaled:.1%}",
        figure.framework_version,
        figure.implementation,
        figure.compiler,
        figure.strategy,
        figure.data,
        figure.hardware,
        details,
        figure.estimator,
        str(figure.source),
        " ".join(figure.footnotes),
    )
