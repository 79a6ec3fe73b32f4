"""The sections with all results in one table and with each result in full, and the names of results."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.reports import labels, result_page
from dlperf_sdk.reports.blocks import ABSENT, Cell, Column, Paragraph, Table, interval_cell
from dlperf_sdk.reports.context import differing_context
from dlperf_sdk.reports.html.page import Folded, Item, Section, Sortable
from dlperf_sdk.reports.numbers import Scale, common_scale, format_count
from dlperf_sdk.reports.results_table import UNREAD
from dlperf_sdk.results.consistency import WITH_RECORDS
from dlperf_sdk.results.result import Result

DETAILED = 60
"""Maximum number of results that are shown in full."""
_PAGE_ROWS = 25
_MOST_LEFT_OUT = 100
_COLUMNS = (
    ("throughput", "throughput"),
    ("throughput-per-device", "per device"),
    ("step-time-median", "step"),
    ("peak-device-memory", "device memory"),
    ("peak-host-memory", "host memory"),
    ("device-energy-per-sample", "device energy per sample"),
    ("mfu", "MFU"),
)
"""Metrics that get a column if a result has them, and the column's heading."""
_WHERE_DIFFERENT: dict[str, Callable[[Result], str]] = {
    "compiler": lambda result: result.spec.compiler,
    "strategy": lambda result: result.spec.strategy,
    "data": lambda result: str(result.spec.data.source),
    "part": lambda result: result.spec.part,
}
"""Columns that are shown only if the results differ in them."""


def names(results: Sequence[Result]) -> list[str]:
    """Return a name for each result, in their order: its case with the batch size per device.

    If several results have the same name, the last six characters of the result's id are appended to each.
    """
    bare = [f"{labels.title(result)} · batch {labels.batch_size(result.spec)}" for result in results]
    counts = Counter(bare)
    return [
        f"{name} · {result.id[-6:]}" if counts[name] > 1 else name
        for name, result in zip(bare, results, strict=True)
    ]


def results_table(
    results: Sequence[Result], outcomes: Sequence[Cell], omitted: Sequence[str] = ()
) -> Section:
    """Return the section with a row per result, failed ones included, in their order.

    Args:
        results: The results.
        outcomes: The outcome of each result, from `labels.outcome`, in the same order.
        omitted: A sentence for each result that is in no plot of throughputs, which says why.
    """
    measured = [(name, title) for name, title in _COLUMNS if any(result.metric(name) for result in results)]
    scales = {name: _scales(name, results) for name, _ in measured}
    columns = [Column(name, whole=True, key=True) for name in ("framework", "model", "topology")]
    columns += [Column("batch", right=True, key=True), Column("precision", whole=True, key=True)]
    # A setting that is equal in all results gets no column.
    differing = [
        name for name, column in _WHERE_DIFFERENT.items() if len({column(result) for result in results}) > 1
    ]
    columns += [*(Column(name) for name in differing)]
    for name, title in measured:
        units = {scale.unit for scale in scales[name].values()}
        columns.append(Column(", ".join([title, *units]) if len(units) == 1 else title, right=True))
        if name == "throughput":
            columns.append(Column("95 % interval", right=True))
            columns.append(Column("ok?", whole=True))
    if not any(name == "throughput" for name, _ in measured):
        columns.append(Column("ok?", whole=True))
    contexts = differing_context(results)
    columns += [Column("differs in")] if any(contexts) else []
    columns.append(Column("run", whole=True))
    rows = []
    for result, outcome, context in zip(results, outcomes, contexts, strict=True):
        spec = result.spec
        cells: list[Cell | str] = [spec.framework, spec.model, str(spec.topology), labels.batch_size(spec)]
        cells += [spec.precision, *(_WHERE_DIFFERENT[name](result) for name in differing)]
        for name, _ in measured:
            metric, metric_scales = result.metric(name), scales[name]
            is_mixed = len({scale.unit for scale in metric_scales.values()}) > 1
            cells.append(_number(metric, metric_scales, is_mixed))
            if name == "throughput":
                cells += [_interval(metric, metric_scales), _short_outcome(outcome, result)]
        if not any(name == "throughput" for name, _ in measured):
            cells.append(_short_outcome(outcome, result))
        cells += ["; ".join(context)] if any(contexts) else []
        rows.append((*cells, result.id))
    table = Table(tuple(columns), tuple(rows), format_count(len(results), "result"))
    filters = ("framework", "model", "topology", "precision", *_WHERE_DIFFERENT, "batch", "ok?")
    items: list[Item] = [Sortable(table, filters, _PAGE_ROWS)]
    count = sum(1 <= len(result.repeats) < 6 for result in results)
    if count:
        note = f"{format_count(count, 'result')} without an interval: six repeats are needed for one."
        items.append(Paragraph(note, "quiet"))
    if len(results) > WITH_RECORDS:
        items.append(Paragraph(UNREAD, "quiet"))
    if omitted:
        notes = tuple(Paragraph(text, "quiet") for text in omitted[:_MOST_LEFT_OUT])
        if len(omitted) > len(notes):
            notes = (*notes, Paragraph(f"And {len(omitted) - len(notes):,} more.", "quiet"))
        items.append(Folded(f"{format_count(len(omitted), 'result')} in no plot of throughputs", notes))
    return Section("Results", tuple(items))


def _short_outcome(outcome: Cell, result: Result) -> Cell:
    """Return a result's outcome without the names of checks, which the verdicts section lists."""
    return outcome if result.failure is not None else Cell(outcome.text.partition(":")[0], outcome.tone)


def _scales(name: str, results: Sequence[Result]) -> dict[str, Scale]:
    """Return the scale of a metric for each unit that it has."""
    units: dict[str, list[float]] = {}
    for result in results:
        metric = result.metric(name)
        if metric is not None and math.isfinite(metric.value):
            units.setdefault(metric.unit, []).append(metric.value)
    return {unit: common_scale(values, unit) for unit, values in units.items()}


def _number(metric: Metric | None, scales: Mapping[str, Scale], is_mixed: bool) -> Cell | str:
    if metric is None:
        return ABSENT
    scale = scales.get(metric.unit)
    if scale is None or not math.isfinite(metric.value):
        return Cell(str(metric.value), "bad")
    return (
        f"{scale.format_alone(metric.value)} {scale.unit}" if is_mixed else scale.format_alone(metric.value)
    )


def _interval(metric: Metric | None, scales: Mapping[str, Scale]) -> Cell:
    if metric is None or metric.unit not in scales:
        return ABSENT
    return interval_cell(metric.low, metric.high, scales[metric.unit].format_interval_alone)


def list_details(results: Sequence[Result], outcomes: Sequence[Cell]) -> Section:
    """Return the section with the whole report on each result, in their order. The results' records are read.

    With more than `DETAILED` (60) results, the section only names the command that shows a report, and no records are
    read.

    Args:
        results: The results.
        outcomes: The outcome of each result, from `labels.outcome`, in the same order.
    """
    title = "Every result in full"
    if len(results) > DETAILED:
        text = f"There are {len(results):,} results: `dlperf report RUN` shows one in full."
        return Section(title, (Paragraph(text, "quiet"),))
    listed = zip(names(results), outcomes, results, strict=True)
    return Section(
        title,
        tuple(
            Folded(f"{name}: {outcome.text}", tuple(result_page.page(result)), outcome.tone)
            for name, outcome, result in listed
        ),
    )
