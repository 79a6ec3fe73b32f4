"""The HTML report on a collection of published figures."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from attrs import evolve

import dlperf_sdk
from dlperf_sdk.analysis.case import Case, cases
from dlperf_sdk.analysis.effects import Pair, effect
from dlperf_sdk.analysis.ranking import Ranking, rankings
from dlperf_sdk.analysis.scaling import efficiency, speedup
from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.interfaces.collection import Collection, Figures
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.reports.blocks import Cell, Column, Notes, Table, Tone
from dlperf_sdk.reports.collection_page import (
    count_disagreements,
    describe_protocol,
    disagreement_blocks,
    group_cells,
)
from dlperf_sdk.reports.html import differences, effects, intervals, leaders, rates, scaling, sweeps
from dlperf_sdk.reports.html.page import Item, Page, Section, Sortable, Tile
from dlperf_sdk.reports.html.summary import fastest_tiles
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.reports.series import format_fact, merge, workloads
from dlperf_sdk.reports.wording import join_names
from dlperf_sdk.spec.data_source import DATA_SOURCES


def page(collection: Collection) -> Page:
    """Return the report on a collection: its figures with their sources, the source's tables, and analyses."""
    measured = cases(collection.figures)
    merged = merge(measured)
    by_workload = workloads(merged)
    distinct = [run.case for run in merged]
    ranked, estimates = rankings(distinct), effects.estimate_effects(distinct, FACTORS)
    sections = (
        leaders.section(ranked),
        scaling.section(by_workload),
        effects.section(distinct, estimates),
        *sweeps.sections(merged),
        Section(
            "Disagreements in the source",
            tuple(
                Sortable(block, page_rows=_PAGE_ROWS) if isinstance(block, Table) else block
                for block in disagreement_blocks(collection)
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
        evolve(differences.section(by_workload, estimates), folded=True),
        intervals.section(merged, ranked),
    )
    return Page(
        title=collection.title,
        lede=_lede(collection),
        tiles=_tiles(collection, ranked),
        sections=tuple(section for section in sections if section.items),
        colophon=f"Made by dlperf-sdk {dlperf_sdk.__version__} from figures that are installed as data.",
    )


_PAGE_ROWS = 12
FACTORS = ("compiler", "precision", "clip_norm", "data", "input_pipeline", "hardware", "batch_size")


def _lede(collection: Collection) -> str:
    figures = collection.figures
    models = join_names(figures.values("model"))
    return f"{collection.description} Models: {models}."


def _tiles(collection: Collection, ranked: Sequence[Ranking]) -> tuple[Tile, ...]:
    disagreements = collection.disagreements()
    cells, protocol = group_cells(disagreements), describe_protocol(disagreements).partition(" (")[0]
    parts = [f"of {format_count(collection.count_printed_cells(), 'printed cell')}"]
    if cells and cells[0][0].difference is not None:
        largest = cells[0][0]
        parts.append(
            f"the number that differs most: {largest.printed} is printed where the figures give {largest.computed} "
            f"({abs(cells[0][0].difference):.0%})"
        )
    if protocol:
        parts.append(protocol)
    title = "Disagreements in the source"
    value = count_disagreements(cells) or "none"
    tone: Tone = "doubt" if disagreements else "good"
    tiles = fastest_tiles(ranked, 3) or _tiles_without_ranking(cases(collection.figures))
    return (*tiles, Tile(title, value, f"{'; '.join(parts)}.", tone, title))


def _tiles_without_ranking(measured: Sequence[Case]) -> tuple[Tile, ...]:
    """Return tiles with the efficiencies and the cost of real data, on the largest topology, where they are known."""
    largest = max((case.topology for case in measured), key=lambda topology: topology.devices)
    on_largest = [case for case in measured if case.topology == largest]
    scaled = [(value, case) for case in on_largest if (value := efficiency(case, measured).value) is not None]
    tiles = []
    if scaled and largest.devices > 1:
        (worst, slow), (best, fast) = min(scaled, key=_first), max(scaled, key=_first)
        text = f"Of perfect scaling. The worst: {_describe(slow)}; the best: {_describe(fast)}."
        tiles.append(Tile(f"Efficiency on {largest}", f"{worst:.1%} to {best:.1%}", text, section="Scaling"))
    pairs: list[Pair] = []
    for source in DATA_SOURCES:
        if source.takes_folder:
            with suppress(AnalysisError):
                pairs += effect(on_largest, factor="data", levels=(source.name, DATA_SOURCES.default)).pairs
    if not pairs:
        return tuple(tiles)
    low, high = min(pairs, key=lambda pair: pair.ratio), max(pairs, key=lambda pair: pair.ratio)
    text = (
        f"The throughput on synthetic data is 1. The lowest: {_describe(low.a)}; the highest: {_describe(high.a)}. "
        f"Only pairs on {largest}; Effects has those of all topologies."
    )
    spread = f"{low.ratio:.2f}× to {high.ratio:.2f}×"
    return (*tiles, Tile(f"Real data on {largest}", spread, text, section="Effects"))


def _first(scaled: tuple[float, Case]) -> float:
    return scaled[0]


def _describe(case: Case) -> str:
    facts = (str(case.facts[name]) for name in ("model", "hardware", "data") if name in case.facts)
    return f"{' '.join(facts)}, batch {case.batch_size}"


def _figures(figures: Figures, candidates: Sequence[Case]) -> Section:
    """Return a table of every figure: its case, the printed numbers, derived ones, and its source."""
    # A baseline has the same model and batch size: searching only there is faster.
    groups: dict[tuple[str, int], list[Case]] = {}
    for case in candidates:
        groups.setdefault((str(case.facts.get("model")), case.batch_size), []).append(case)
    notes = list(dict.fromkeys(footnote for figure in figures for footnote in figure.footnotes))
    rows = [_row(figure, groups[figure.model, figure.batch_size], notes) for figure in figures]
    columns = (
        *(Column(name, key=True) for name in ("framework", "version", "model", "topology")),
        Column("batch", right=True, key=True),
        *(Column(name, key=True) for name in ("precision", "compiler", "data", "hardware", "settings")),
        Column("throughput", right=True),
        Column("unit"),
        Column("speedup", right=True),
        Column("printed speedup", right=True),
        Column("efficiency", right=True),
        Column("protocol", whole=True),
        *(Column(name, whole=True) for name in ("implementation", "strategy", "estimator", "source")),
        Column("notes"),
    )
    # A column with the same text in all rows distinguishes none of them: its text is stated once.
    texts = [{_text(row[index]) for row in rows} for index in range(len(columns))]
    visible = [
        index for index, column in enumerate(columns) if column.title in _ALWAYS or len(texts[index]) > 1
    ]
    # Data that follow from the model come last.
    titles = [column.title for column in columns]
    models = {tuple(_text(row[titles.index(name)]) for name in ("model", "data")) for row in rows}
    if len(models) == len(texts[titles.index("model")]):
        visible.sort(key=lambda index: titles[index] == "data")
        columns = tuple(evolve(column, key=column.key and column.title != "data") for column in columns)
    constant = [
        f"{column.title} {next(iter(texts[index]))}"
        for index, column in enumerate(columns)
        if index not in visible and any(texts[index])
    ]
    table = Table(
        tuple(columns[index] for index in visible),
        tuple(tuple(row[index] for index in visible) for row in rows),
        "Each figure with the document and the line that it stands in",
    )
    filters = (
        "framework",
        "version",
        "model",
        "topology",
        "precision",
        "compiler",
        "data",
        "hardware",
        "batch",
    )
    items: list[Item] = [Sortable(table, filters, _PAGE_ROWS)]
    if notes:
        items.append(Notes(tuple(notes)))
    lede = "The printed speedup is the source's; speedup and efficiency are computed from its figures."
    if constant:
        lede += f" All figures have: {', '.join(constant)}."
    return Section("Every figure", tuple(items), lede)


_ALWAYS = ("model", "topology", "batch", "throughput", "source")


def _text(cell: Cell | str) -> str:
    return cell.text if isinstance(cell, Cell) else cell


def _row(figure: PublishedFigure, candidates: Sequence[Case], notes: list[str]) -> tuple[Cell | str, ...]:
    faster, scaled = speedup(figure, candidates).value, efficiency(figure, candidates).value
    none = Cell("–", "quiet")
    details = ", ".join(
        f"{name.replace('_', ' ')} {value}" if isinstance(value, str) else format_fact(name, value)
        for name, value in sorted(figure.options.items())
    )
    steps = "" if figure.steps is None else f"{figure.steps} steps"
    if figure.warmup is not None and steps:
        steps = f"{figure.warmup} + {steps}"
    repeats = "" if figure.repeat_count is None else format_count(figure.repeat_count, "repeat")
    return (
        figure.framework,
        figure.framework_version,
        figure.model,
        str(figure.topology),
        str(figure.batch_size),
        figure.precision,
        figure.compiler,
        figure.data,
        figure.hardware,
        details,
        f"{figure.throughput:,}".removesuffix(".0"),
        figure.unit,
        none if faster is None else f"{faster:.2f}",
        "" if figure.printed_speedup is None else f"{figure.printed_speedup:g}",
        none if scaled is None else f"{scaled:.1%}",
        ", ".join(filter(None, (steps, repeats))),
        figure.implementation,
        figure.strategy,
        figure.estimator,
        str(figure.source),
        " ".join(f"[{notes.index(footnote) + 1}]" for footnote in figure.footnotes),
    )
