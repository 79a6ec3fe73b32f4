"""The sections on sweeps: throughput and memory over batch size, image size or sequence length, a curve per case."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.interfaces.collection import OutOfMemory
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.reports.blocks import Cell, Column, Table, interval_cell
from dlperf_sdk.reports.html import line_charts
from dlperf_sdk.reports.html.not_measured import OUT_OF_MEMORY
from dlperf_sdk.reports.html.page import Abreast, Item, Plot, Section, Sortable
from dlperf_sdk.reports.html.palette import MOST_SERIES
from dlperf_sdk.reports.html.rates import MAX_WORKLOADS, choose_workload
from dlperf_sdk.reports.measurement_summary import sort_topologies
from dlperf_sdk.reports.numbers import Scale, common_scale, format_count
from dlperf_sdk.reports.series import Merged, describe_lacked_compilers, labels
from dlperf_sdk.reports.sweeps import Sweep, size_of, sweeps
from dlperf_sdk.reports.wording import join_names
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.values import TopologySpec

_TITLE, _OF_BATCH_SIZES = "Sweeps", "Batch sizes"
"""Title of the sections; the second one if only batch sizes are swept."""
_MOST_MODELS = 4
"""Maximum number of models that have their own section."""
_PAGE_ROWS = 10
MEMORY = "peak-device-memory"


def sections(
    merged: Sequence[Merged],
    memory: Mapping[str, Metric] | None = None,
    out_of_memory: Sequence[OutOfMemory] = (),
) -> list[Section]:
    """Return the sections on sweeps: one per model if two to four models have sweeps, else one for all models.

    A section has a table of the throughput of each batch size and, for each swept size, topology and precision, a plot
    of throughput and one of memory. If no model has sweeps, there is one section without items.

    Args:
        merged: The cases of the report, with the runs of each case merged.
        memory: Id of a result → its peak device memory; None: no plots of memory.
        out_of_memory: Cases that ran out of memory, which the tables show.
    """
    all_sweeps = sweeps(merged)
    title = _OF_BATCH_SIZES if {sweep.factor for sweep in all_sweeps} == {"batch_size"} else _TITLE
    swept = {str(sweep.case.facts.get("model", "")) for sweep in all_sweeps}
    by_model: dict[str, list[Merged]] = {}
    for run in merged:
        by_model.setdefault(str(run.case.facts.get("model", "")), []).append(run)
    if not 1 < len(swept) <= _MOST_MODELS:
        runs = [run for model in by_model if model in swept for run in by_model[model]]
        return [_section(title, runs, all_sweeps, memory or {}, out_of_memory)]
    return [
        _section(f"{title}: {model}", by_model[model], sweeps(by_model[model]), memory or {}, out_of_memory)
        for model in by_model
        if model in swept
    ]


def _section(
    title: str,
    merged: Sequence[Merged],
    all_sweeps: Sequence[Sweep],
    memory: Mapping[str, Metric],
    out_of_memory: Sequence[OutOfMemory],
) -> Section:
    groups: dict[tuple[str, ...], list[Sweep]] = {}
    for sweep in all_sweeps:
        facts = sweep.case.facts
        case_names = (str(facts.get("model", "")), str(sweep.case.topology), str(facts.get("precision", "")))
        groups.setdefault((sweep.factor, *case_names, sweep.case.unit), []).append(sweep)
    ordered = sorted(groups.items(), key=lambda group: (-_distinct(group[1]), -len(group[1])))
    parts = [
        (_title(*case_names), (Abreast(tuple(_plots(_title(*case_names), group, memory))),))
        for (*case_names, _), group in ordered[:MAX_WORKLOADS]
    ]
    lede = "A curve is one case with different sizes, which are different work: it is no ranking."
    items, exhausted = _batch_sizes(merged, out_of_memory)
    answer = ""
    if exhausted:
        sizes = join_names(map(str, sorted({size for sizes in exhausted.values() for size in sizes})))
        count = sum(map(len, exhausted.values()))
        answer = f"{format_count(count, 'case')} ran {OUT_OF_MEMORY} at batch {sizes}."
        lede += " The source names no topology for what ran out of memory; each batch size counts as a case."
    return Section(
        title,
        (*items, *choose_workload(parts, len(ordered))),
        lede,
        answer=answer,
    )


def _batch_sizes(
    merged: Sequence[Merged], out_of_memory: Sequence[OutOfMemory]
) -> tuple[list[Item], dict[str, set[int]]]:
    """Return a table of the throughput by batch size, and the batch sizes of each case that ran out of memory.

    The table has a row per topology and case; cases of one batch size only come last. It is left out if there are no
    others.
    """
    listed = [run.case for run in merged]
    names = [
        ", ".join(filter(None, (label, describe_lacked_compilers(case, listed))))
        for label, case in zip(labels(listed, ("topology", "batch_size")), listed, strict=True)
    ]
    runs: dict[str, dict[TopologySpec, list[Case]]] = {}
    exhausted: dict[str, set[int]] = {}
    for name, run in zip(names, merged, strict=True):
        runs.setdefault(name, {}).setdefault(run.case.topology, []).append(run.case)
        if stated := {case.batch_size for case in out_of_memory if case.applies_to(run.case.facts)}:
            exhausted[name] = stated
    sizes = {
        name: sorted(
            {case.batch_size for cases in places.values() for case in cases} | exhausted.get(name, set())
        )
        for name, places in runs.items()
    }
    if all(len(members) == 1 for members in sizes.values()):
        return [], exhausted
    ordered = sorted(runs, key=lambda name: (len(sizes[name]) - len(exhausted.get(name, ())) == 1, name))
    topologies = sort_topologies(topology for places in runs.values() for topology in places)
    batches = sorted({size for members in sizes.values() for size in members})
    rows = [
        (str(topology), name, *_throughputs(runs[name][topology], batches, exhausted.get(name, set())))
        for is_single in (False, True)
        for topology in topologies
        for name in ordered
        if topology in runs[name] and (len(sizes[name]) == 1) is is_single
    ]
    columns = (
        Column("topology", key=True),
        Column("case", whole=True, key=True),
        Column("best", whole=True),
        *(Column(f"batch {size}", right=True) for size in batches),
    )
    units = ", ".join(dict.fromkeys(run.case.unit for run in merged))
    title = f"Throughput ({units}) by batch size; best: within 1 %, with its ratio to the smallest"
    return [Sortable(Table(columns, tuple(rows), title), ("topology", "case"), _PAGE_ROWS)], exhausted


def _throughputs(
    cases: Sequence[Case], batches: Sequence[int], exhausted: Collection[int]
) -> list[Cell | str]:
    """Return the best batch sizes of a case with their ratio, and the throughput with each batch size.

    A batch size that ran out of memory has that in place of the throughput.
    """
    scale = common_scale([case.throughput for case in cases], "")
    ordered = sorted(cases, key=lambda case: case.throughput)
    # In two lines it makes the column no wider.
    cells: dict[int, Cell | str] = dict.fromkeys(exhausted, Cell(OUT_OF_MEMORY.replace(" (", "\n("), "doubt"))
    cells |= {case.batch_size: scale.format_alone(case.throughput) for case in ordered}
    return [_best(cases), *(cells.get(size, "") for size in batches)]


def _best(cases: Sequence[Case]) -> str:
    """Return the best batch sizes of a case, with the ratio of their throughput to that of the smallest."""
    ordered = sorted(cases, key=lambda case: case.batch_size)
    top = max(ordered, key=lambda case: case.throughput)
    best = dict.fromkeys(str(case.batch_size) for case in ordered if case.throughput >= 0.99 * top.throughput)
    is_single = ordered[0].batch_size == ordered[-1].batch_size
    ratio = "only one" if is_single else f"{top.throughput / ordered[0].throughput:.2f}×"
    return f"{', '.join(best)} ({ratio})"


def memory_of(results: Iterable[Result]) -> dict[str, Metric]:
    """Return the metric `peak-device-memory` of the results that have it: id of the result → metric."""
    return {result.id: metric for result in results if (metric := result.metric(MEMORY))}


def _distinct(group: Sequence[Sweep]) -> int:
    return len({sweep.value(run) for sweep in group for run in sweep.runs})


def _title(factor: str, model: str, topology: str, precision: str) -> str:
    return f"{factor.replace('_', ' ').capitalize()}: {model}, {topology}, {precision}"


def _plots(title: str, group: Sequence[Sweep], memory: Mapping[str, Metric]) -> list[Plot]:
    factor = group[0].factor
    names = labels([sweep.case for sweep in group], ("topology", "precision", factor))
    named = list(zip(names, group, strict=True))[:MOST_SERIES]
    plots = [
        _plot(
            f"{title}: throughput",
            "throughput",
            factor,
            group[0].case.unit,
            [
                (name, sweep, [(run, run.case.throughput, run.low, run.high) for run in sweep.runs])
                for name, sweep in named
            ],
        )
    ]
    measured = [
        (
            name,
            sweep,
            [
                (run, metric.value, metric.low, metric.high)
                for run in sweep.runs
                if (metric := memory.get(run.case.name)) and metric.unit == "B"
            ],
        )
        for name, sweep in named
    ]
    if any(points for _, _, points in measured):
        plots.append(_plot(f"{title}: peak device memory", "memory", factor, "B", measured))
    return plots


_Points = list[tuple[Merged, float, float | None, float | None]]


def _plot(
    title: str, quantity: str, factor: str, unit: str, curves: Sequence[tuple[str, Sweep, _Points]]
) -> Plot:
    scale = common_scale([value for _, _, points in curves for _, value, _, _ in points], unit)
    rows, cells = [], []
    for name, sweep, points in curves:
        for run, value, low, high in points:
            rows.append(_row(name, sweep.value(run), value, low, high, scale))
            interval = interval_cell(low, high, scale.format_interval_alone)
            cells.append((name, f"{sweep.value(run):g}", scale.format_alone(value), interval))
    size = factor.replace("_", " ") + (" per device" if factor == "batch_size" else "")
    columns = (
        Column("case"),
        Column(size, right=True),
        Column(f"{quantity}, {scale.unit}", right=True),
        Column("95 % interval", right=True),
    )
    sizes = sorted({size_of(run.case, factor) for _, _, points in curves for run, _, _, _ in points})
    text = f"{format_count(len(curves), 'curve')} over {size} {', '.join(f'{number:g}' for number in sizes)}."
    draw = partial(line_charts.curves, rows, size, f"{quantity}, {scale.unit}")
    return Plot(title, text, draw, Table(columns, tuple(cells)))


def _row(
    name: str, size: float, value: float, low: float | None, high: float | None, scale: Scale
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "series": name,
        "at": size,
        "value": value / scale.divisor,
        "shown": f"{scale.format_alone(value)} {scale.unit}",
        "line": True,
    }
    if low is not None and high is not None:
        row |= {
            "low": low / scale.divisor,
            "high": high / scale.divisor,
            "interval": scale.format_interval_alone(low, high),
        }
    return row
