"""The HTML report on results, and that on predictions."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

import dlperf_sdk
from dlperf_sdk.analysis.case import Case
from dlperf_sdk.analysis.ranking import rankings, unrivaled
from dlperf_sdk.errors import AnalysisError, StoreError
from dlperf_sdk.interfaces.collection import Collection
from dlperf_sdk.reports import attribution, traces
from dlperf_sdk.reports.blocks import Paragraph
from dlperf_sdk.reports.html import (
    differences,
    effects,
    intervals,
    leaders,
    published_comparison,
    rates,
    resources,
    run_context,
    scaling,
    steps,
    summary,
    sweeps,
    verdicts,
)
from dlperf_sdk.reports.html import results as result_section
from dlperf_sdk.reports.html.page import Item, Page, Section
from dlperf_sdk.reports.labels import outcome
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.reports.series import merge, strong_workloads, workloads
from dlperf_sdk.results.consistency import list_contradictions_by_result
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.values import TopologySpec

_MOST_NOTES = 20


def page(
    results: Sequence[Result],
    unread: Sequence[str] = (),
    published: Collection | None = None,
    reference: Sequence[Case] = (),
) -> Page:
    """Return the report on results. Sections without content are left out.

    If there are at most `WITH_RECORDS` (60) results, their records are read to check them for contradictions. In any
    case, the records of results whose steps are plotted are read. A result with a contradiction is in no ranking and no
    plot of throughputs.

    Args:
        results: The results, at least one.
        unread: A sentence for each result that could not be read; the report shows them.
        published: Published figures, which are compared with results of the same case; None: no comparison.
        reference: Published cases from which the growth of throughput is learned; empty: no prediction.

    Raises:
        StoreError: There is no result.
    """
    if not results:
        raise StoreError("There is no result to report on.")
    contradictions = list_contradictions_by_result(results)
    cases, omitted = _cases(results, contradictions)
    merged = merge(cases)
    by_workload = workloads(merged)
    distinct = [run.case for run in merged]
    ranked, estimates = rankings(distinct), effects.estimate_effects(distinct)
    outcomes = [outcome(result, reasons) for result, reasons in zip(results, contradictions, strict=True)]
    consistent = [result for result, reasons in zip(results, contradictions, strict=True) if not reasons]
    sections = (
        Section("What could not be read", _notes(unread)),
        leaders.section(ranked, unrivaled(distinct)),
        result_section.results_table(results, outcomes, omitted),
        rates.section(by_workload),
        scaling.section(by_workload, reference),
        scaling.strong(strong_workloads(merged), by_workload),
        *sweeps.sections(merged, sweeps.memory_of(results)),
        Section(attribution.TITLE, tuple(attribution.tables(results)), attribution.EXPLANATION),
        Section(traces.TITLE, tuple(traces.tables(results)), traces.EXPLANATION),
        effects.section(distinct, estimates),
        *([] if published is None else [published_comparison.section(consistent, published)]),
        verdicts.section(results),
        *(
            evolve(section, folded=True)
            for section in (
                steps.section(results),
                resources.section(results),
                differences.section(by_workload, estimates),
                run_context.section(results),
                result_section.list_details(results, outcomes),
            )
        ),
        *([intervals.section(merged, ranked)] if merged else []),
    )
    return Page(
        title="Benchmark report",
        lede=summary.lede(results),
        tiles=(summary.validity_tile(results, outcomes), *summary.fastest_tiles(ranked, 3)),
        sections=tuple(section for section in sections if section.items),
        colophon=f"Made by dlperf-sdk {dlperf_sdk.__version__} from {format_count(len(results), 'result')}.",
    )


def prediction_page(cases: Sequence[Case], topology: TopologySpec, reference: Sequence[Case]) -> Page:
    """Return the report on predictions of one topology, with the measured series that they start from.

    A series from which the topology cannot be predicted has no prediction.

    Args:
        cases: The measured cases, which are grouped into series.
        topology: The topology to predict.
        reference: Published cases from which the growth is learned; without any, nothing is predicted.
    """
    return Page(
        title=f"Prediction for {topology}",
        lede="Throughput of a topology that was not measured, predicted from smaller ones and from published series.",
        tiles=(),
        sections=(scaling.section(workloads(merge(cases)), reference, topology),),
        colophon=f"Made by dlperf-sdk {dlperf_sdk.__version__} from {format_count(len(cases), 'result')}.",
    )


def _cases(
    results: Sequence[Result], contradictions: Sequence[Sequence[str]]
) -> tuple[list[Case], list[str]]:
    """Return the cases with a valid throughput, and the reasons why the others are in no plot.

    Args:
        results: The results.
        contradictions: The contradictions between each result and its records, in the same order.
    """
    valid, omitted = [], []
    for result, reasons in zip(results, contradictions, strict=True):
        if reasons:
            omitted.append(
                f"The throughput of {result.id} does not stand: the file contradicts itself. {reasons[0]}"
            )
            continue
        try:
            valid.append(Case.from_source(result))
        except AnalysisError as error:
            omitted.append(str(error))
    return valid, omitted


def _notes(texts: Sequence[str]) -> tuple[Item, ...]:
    notes: list[Item] = [Paragraph(text, "doubt") for text in texts[:_MOST_NOTES]]
    if len(texts) > _MOST_NOTES:
        notes.append(Paragraph(f"And {len(texts) - _MOST_NOTES:,} more.", "doubt"))
    return tuple(notes)
