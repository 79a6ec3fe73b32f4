"""The HTML report on a collection of published figures."""

from __future__ import annotations

from attrs import evolve

import dlperf_sdk
from dlperf_sdk.analysis.case import cases
from dlperf_sdk.analysis.ranking import rankings, unrivaled
from dlperf_sdk.interfaces.collection import Collection
from dlperf_sdk.reports.blocks import Paragraph, Table
from dlperf_sdk.reports.collection_page import (
    KIND,
    count_disagreements,
    describe_rounding,
    disagreement_block,
    group_cells,
    tabulate_causes,
)
from dlperf_sdk.reports.html import (
    differences,
    effects,
    every_figure,
    framework_pairs,
    intervals,
    leaders,
    not_measured,
    rates,
    scaling,
    sweeps,
)
from dlperf_sdk.reports.html.collection_tiles import (
    DISAGREEMENTS_TITLE,
    SUMMARY_TITLE,
    describe_extent,
    tiles,
)
from dlperf_sdk.reports.html.page import Page, Section, Sortable
from dlperf_sdk.reports.measurement_summary import describe_protocols, summary_table
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.reports.series import merge, workloads
from dlperf_sdk.spec.stated_protocol import DEVIATES

_PAGE_ROWS = 20
FACTORS = (
    "compiler",
    "precision",
    "clip_norm",
    "strategy",
    "data",
    "input_pipeline",
    "hardware",
    "batch_size",
)


def page(collection: Collection) -> Page:
    """Return the report on a collection: its figures with their sources, the source's tables, and analyses.

    Sections without content are left out. Without figures, the page says so and has no section.
    """
    colophon = f"Made by dlperf-sdk {dlperf_sdk.__version__} from figures that are installed as data."
    if not collection.figures:
        return Page(collection.title, f"{collection.description} It has no figures.", (), (), colophon)
    merged = merge(cases(collection.figures))
    by_workload = workloads(merged)
    distinct = [run.case for run in merged]
    ranked, estimates = rankings(distinct), effects.estimate_effects(distinct, FACTORS)
    disagreements = disagreement_block(collection)
    cells = group_cells(collection.disagreements())
    checked = format_count(collection.count_printed_cells(), "printed cell")
    sections = (
        leaders.section(ranked, unrivaled(distinct)),
        framework_pairs.section(distinct, ranked, collection.printed_names),
        scaling.section(by_workload),
        effects.section(distinct, estimates, collection.printed_names),
        *(
            evolve(section, folded=True)
            for section in sweeps.sections(merged, out_of_memory=collection.out_of_memory())
        ),
        _summary(collection),
        not_measured.section(distinct, collection.out_of_memory()),
        Section(
            DISAGREEMENTS_TITLE,
            (
                (tabulate_causes(cells), Sortable(disagreements, (KIND,), _PAGE_ROWS))
                if isinstance(disagreements, Table)
                else (disagreements,)
            ),
            folded=isinstance(disagreements, Table),
            answer=f"Wrong of {checked}: {count_disagreements(cells)}{describe_rounding(cells)}."
            if cells
            else "",
        ),
        every_figure.section(collection),
        intervals.section(merged, ranked),
        evolve(rates.section(by_workload), folded=True),
        Section(
            "Source tables",
            tuple(collection.tables()),
            "The tables of the source, computed from the figures. A note marks a cell whose printed value differs.",
            folded=True,
        ),
        evolve(differences.section(by_workload, estimates), folded=True),
    )
    return Page(
        title=collection.title,
        lede=" ".join(
            [collection.description, describe_extent(distinct), *_describe_printed_names(collection)]
        ),
        tiles=tiles(collection, ranked),
        sections=tuple(section for section in sections if section.items),
        colophon=colophon,
        aliases={
            **{printed: name for name, printed in collection.printed_names.items()},
            **collection.aliases,
        },
    )


def _describe_printed_names(collection: Collection) -> list[str]:
    """Return a sentence for each strategy that the source calls by another name."""
    return [f"The source calls {name} {printed}." for name, printed in collection.printed_names.items()]


def _summary(collection: Collection) -> Section:
    figures, prescribed = collection.figures.figures, collection.prescribed
    filters = ("framework", "implementation", "model", "precision", every_figure.PROTOCOL_CHECK)
    table = Sortable(summary_table(figures, prescribed), filters, _PAGE_ROWS)
    if prescribed is None:
        return Section(SUMMARY_TITLE, (table,), folded=True)
    text = Paragraph(describe_protocols(figures, prescribed, collection.disagreements()), "doubt")
    deviating = sum(figure.protocol.check(prescribed) == DEVIATES for figure in figures)
    answer = f"{deviating} of {format_count(len(figures), 'figure')} deviate from the prescribed protocol."
    return Section(SUMMARY_TITLE, (text, table), folded=True, answer=answer)
