"""Show sweeps: throughput and memory over batch size, image size or sequence length, a curve per case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.reports.blocks import Cell, Column, Table
from dlperf_sdk.reports.html import line_charts
from dlperf_sdk.reports.html.chart_parts import MOST_SERIES
from dlperf_sdk.reports.html.page import Abreast, Plot, Section
from dlperf_sdk.reports.html.rates import MOST, fold_workloads
from dlperf_sdk.reports.numbers import Scale, common_scale, format_count
from dlperf_sdk.reports.series import Merged, labels
from dlperf_sdk.reports.sweeps import Sweep, size_of, sweeps
from dlperf_sdk.results.result import Result

_TITLE = "Sweeps"
MEMORY = "peak-device-memory"


def section(merged: Sequence[Merged], memory: Mapping[str, Metric] | None = None) -> Section:
    """Return a plot of throughput, and one of memory, for each swept size of a model, topology and precision.

    Args:
        merged: The cases.
        memory: The peak device memory of results, by their names.
    """
    groups: dict[tuple[str, ...], list[Sweep]] = {}
    for sweep in sweeps(merged):
        facts = sweep.case.facts
        about = (str(facts.get("model", "")), str(sweep.case.topology), str(facts.get("precision", "")))
        groups.setdefault((sweep.of, *about, sweep.case.unit), []).append(sweep)
    ordered = sorted(groups.items(), key=lambda group: (-_distinct(group[1]), -len(group[1])))
    parts = [
        (_title(*about), (Abreast(tuple(_plots(_title(*about), group, memory or {}))),))
        for (*about, _), group in ordered[:MOST]
    ]
    lede = "One case with different sizes is one curve. Different sizes are different work: a curve is no ranking."
    return Section(_TITLE, fold_workloads(parts, len(ordered)), lede)


def memory_of(results: Iterable[Result]) -> dict[str, Metric]:
    """Return the peak device memory of each result that has it, by the result's name."""
    return {result.id: metric for result in results if (metric := result.metric(MEMORY))}


def _distinct(group: Sequence[Sweep]) -> int:
    return len({sweep.value(run) for sweep in group for run in sweep.runs})


def _title(of: str, model: str, topology: str, precision: str) -> str:
    return f"{of.replace('_', ' ').capitalize()}: {model}, {topology}, {precision}"


def _plots(title: str, group: Sequence[Sweep], memory: Mapping[str, Metric]) -> list[Plot]:
    of = group[0].of
    names = labels([sweep.case for sweep in group], ("topology", "precision", of))
    named = list(zip(names, group, strict=True))[:MOST_SERIES]
    plots = [
        _plot(
            f"{title}: throughput",
            "throughput",
            of,
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
        plots.append(_plot(f"{title}: peak device memory", "memory", of, "B", measured))
    return plots


_Points = list[tuple[Merged, float, float | None, float | None]]


def _plot(
    title: str, quantity: str, of: str, unit: str, curves: Sequence[tuple[str, Sweep, _Points]]
) -> Plot:
    how = common_scale([value for _, _, points in curves for _, value, _, _ in points], unit)
    rows, cells = [], []
    for name, sweep, points in curves:
        for run, value, low, high in points:
            rows.append(_row(name, sweep.value(run), value, low, high, how))
            has_interval = low is not None and high is not None
            interval = how.own_interval(low or 0, high or 0) if has_interval else Cell("–", "quiet")
            cells.append((name, f"{sweep.value(run):g}", how.own(value), interval))
    size = of.replace("_", " ") + (" per device" if of == "batch_size" else "")
    columns = (
        Column("case"),
        Column(size, right=True),
        Column(f"{quantity}, {how.unit}", right=True),
        Column("95 % interval", right=True),
    )
    sizes = sorted({size_of(run.case, of) for _, _, points in curves for run, _, _, _ in points})
    text = f"{format_count(len(curves), 'curve')} over {size} {', '.join(f'{one:g}' for one in sizes)}."
    draw = partial(line_charts.curves, rows, size, f"{quantity}, {how.unit}")
    return Plot(title, text, draw, Table(columns, tuple(cells)))


def _row(
    name: str, size: float, value: float, low: float | None, high: float | None, how: Scale
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "series": name,
        "at": size,
        "value": value / how.divisor,
        "shown": f"{how.own(value)} {how.unit}",
        "line": True,
    }
    if low is not None and high is not None:
        row |= {"low": low / how.divisor, "high": high / how.divisor, "interval": how.own_interval(low, high)}
    return row
