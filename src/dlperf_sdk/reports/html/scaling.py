"""The sections on scaling: throughput, speedup and efficiency over devices, beside perfect scaling."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.analysis.scaling import Scaling
from dlperf_sdk.reports.blocks import Notes
from dlperf_sdk.reports.html import line_charts
from dlperf_sdk.reports.html.forecast import Forecast, forecasts
from dlperf_sdk.reports.html.page import Abreast, Folded, Item, Plot, Section
from dlperf_sdk.reports.html.palette import MOST_SERIES
from dlperf_sdk.reports.html.rates import MAX_WORKLOADS, choose_workload
from dlperf_sdk.reports.html.scaling_series import Series, find_loader_limits, series_of
from dlperf_sdk.reports.html.scaling_summary import summary_items
from dlperf_sdk.reports.html.scaling_tables import (
    describe,
    describe_efficiency,
    numbers_table,
)
from dlperf_sdk.reports.numbers import Scale, common_scale
from dlperf_sdk.reports.series import Workload
from dlperf_sdk.spec.values import TopologySpec


def section(
    workloads: Sequence[Workload], reference: Sequence[Case] = (), topology: TopologySpec | None = None
) -> Section:
    """Return the section on weak scaling, for the workloads with at least two numbers of devices.

    It has no items without such a workload.

    Args:
        workloads: The workloads with their cases.
        reference: Published cases from which a larger topology is predicted; empty: no prediction.
        topology: The topology to predict; None: for each series, twice the nodes of its largest topology, or twice the
            devices of a single node.
    """
    lede = (
        "The batch per device is constant (weak scaling). Thin lines show perfect scaling. Speedup and efficiency are "
        "relative to one device of the same case."
    )
    by_workload = [(workload, series_of(workload)) for workload in workloads]
    if reference:
        lede += (
            " The dotted lines predict a larger topology; the pale bands are 90 % intervals. A band without a line is "
            "an interval without a point forecast: a note below the table gives the reason."
        )
    return Section("Scaling", _make_items(by_workload, "weak", reference, topology), lede)


def strong(workloads: Sequence[Workload], weak: Sequence[Workload]) -> Section:
    """Return the section on strong scaling, for the workloads with at least two numbers of devices.

    A series with only two numbers of devices is left out if all its points are in series of weak scaling as well. Such
    cases agree in their global batch size by chance, such as 1n1d with 64 and 1n2d with 32 samples per device. The
    section has no items if no series is left.

    Args:
        workloads: The cases of the report, grouped by global batch size: the result of `series.strong_workloads`.
        weak: The same cases, grouped by batch size per device: the result of `series.workloads`.
    """
    shown_elsewhere = {
        id(point.merged) for workload in weak for series in series_of(workload) for point in series.points
    }
    by_workload = [
        (
            workload,
            [
                series
                for series in series_of(workload, "strong")
                if len({point.merged.case.topology.devices for point in series.points}) > 2
                or not shown_elsewhere.issuperset(id(point.merged) for point in series.points)
            ],
        )
        for workload in workloads
    ]
    lede = (
        "The global batch is constant (strong scaling): more devices mean fewer samples per device. Thin lines "
        "show perfect scaling. Speedup and efficiency are relative to one device with the whole batch."
    )
    return Section("Strong scaling", _make_items(by_workload, "strong"), lede)


def _make_items(
    grouped: Sequence[tuple[Workload, list[Series]]],
    kind: Scaling,
    reference: Sequence[Case] = (),
    topology: TopologySpec | None = None,
) -> tuple[Item, ...]:
    scaled = [(workload, series) for workload, series in grouped if series]
    parts = [part for workload, series in scaled for part in _by_precision(workload, series)]
    parts.sort(key=lambda part: -len(part[2]))
    limits = find_loader_limits([curve for _, series in scaled for curve in series])
    drawn = [
        (title, _items(title, workload.unit, series, kind, limits, reference, topology))
        for title, workload, series in parts[:MAX_WORKLOADS]
    ]
    return (*summary_items(scaled, limits), *choose_workload(drawn, len(parts)))


def _by_precision(workload: Workload, series: Sequence[Series]) -> list[tuple[str, Workload, list[Series]]]:
    """Return the title, the workload and the series of each precision: lines of two would be compared."""
    groups: dict[str, list[Series]] = {}
    for curve in series:
        precision = str(curve.points[0].merged.case.facts.get("precision", ""))
        groups.setdefault(precision, []).append(curve)
    return [
        (f"{workload.title}, {precision}" if len(groups) > 1 else workload.title, workload, members)
        for precision, members in groups.items()
    ]


_NAMES: dict[Scaling, tuple[str, str, str]] = {
    "weak": ("Scaling", "Speedup", "Efficiency"),
    "strong": ("Strong scaling", "Speedup of strong scaling", "Efficiency of strong scaling"),
}


def _items(
    title: str,
    unit: str,
    series: Sequence[Series],
    kind: Scaling,
    limits: Mapping[int, str],
    reference: Sequence[Case],
    topology: TopologySpec | None,
) -> tuple[Item, ...]:
    """Return the plots of all series, at most `MOST_SERIES` in each, and a table of their numbers."""
    scale = common_scale([point.merged.case.throughput for curve in series for point in curve.points], unit)
    predicted = forecasts(series, reference, topology)
    numbers, reasons = numbers_table(series, scale, predicted)
    count = math.ceil(len(series) / MOST_SERIES)
    step = math.ceil(len(series) / count)
    items: list[Item] = [
        _plots(
            f"{title}, {number} of {count}" if count > 1 else title,
            series,
            series[step * (number - 1) : step * number],
            scale,
            kind,
            predicted,
            limits,
        )
        for number in range(1, count + 1)
    ]
    items.append(Folded("The same numbers as a table", (numbers,)))
    if reasons:
        items.append(Notes(tuple(reasons)))
    return tuple(items)


def _plots(
    title: str,
    series: Sequence[Series],
    drawn: Sequence[Series],
    scale: Scale,
    kind: Scaling,
    predicted: Sequence[Forecast],
    limits: Mapping[int, str],
) -> Abreast:
    """Return the plots of the drawn series; their descriptions name the highest, best and worst of all series."""
    throughputs, speedups, efficiencies = _NAMES[kind]
    names = {curve.name for curve in drawn}
    points = [row for curve in drawn for row in _rows(curve, scale)]
    points += [row for forecast in predicted if forecast.name in names for row in forecast.rows(scale)]
    draw = partial(line_charts.scaling, points, scale.unit)
    plots = [Plot(f"{throughputs}: {title}", describe(series, drawn, scale.unit), draw)]
    rows = [row for curve in drawn for row in _efficiencies(curve)]
    if rows:
        text = "Throughput over that of one device of the same case. Thin: perfect scaling."
        faster = [row for curve in drawn for row in _speedups(curve)]
        plots.append(Plot(f"{speedups}: {title}", text, partial(line_charts.speedup, faster)))
        plots.append(
            Plot(
                f"{efficiencies}: {title}",
                describe_efficiency(series, drawn, limits),
                partial(line_charts.efficiency, rows),
            )
        )
    return Abreast(tuple(plots))


def _rows(series: Series, scale: Scale) -> list[dict[str, Any]]:
    rows, drawn = [], set()
    for point in series.points:
        case, base = point.merged.case, point.speedup.baseline
        devices = case.topology.devices
        row = {
            "series": series.name,
            "devices": devices,
            "topology": str(case.topology),
            "value": case.throughput / scale.divisor,
            "shown": f"{scale.format_alone(case.throughput)} {scale.unit}",
            # Among topologies with equally many devices, the line goes through the one with fewest nodes.
            "line": devices not in drawn,
        }
        drawn.add(devices)
        if base is not None:
            row["ideal"] = base.throughput / base.topology.devices * devices / scale.divisor
        if point.merged.low is not None and point.merged.high is not None:
            row |= {"low": point.merged.low / scale.divisor, "high": point.merged.high / scale.divisor}
            row["interval"] = scale.format_interval_alone(point.merged.low, point.merged.high)
        rows.append(row)
    return rows


def _efficiencies(series: Series) -> list[dict[str, Any]]:
    return _scaled_rows(series, [point.efficiency.value for point in series.points], 100, ".1%")


def _speedups(series: Series) -> list[dict[str, Any]]:
    return _scaled_rows(series, [point.speedup.value for point in series.points], 1, ".2f")


def _scaled_rows(
    series: Series, values: Sequence[float | None], factor: float, form: str
) -> list[dict[str, Any]]:
    """Return a row for each point that has a value; the line goes through one point of each number of devices."""
    rows: list[dict[str, Any]] = []
    drawn: set[int] = set()
    for point, value in zip(series.points, values, strict=True):
        topology = point.merged.case.topology
        if value is not None:
            rows.append(
                {
                    "series": series.name,
                    "devices": topology.devices,
                    "topology": str(topology),
                    "value": factor * value,
                    "shown": format(value, form),
                    "line": topology.devices not in drawn,
                }
            )
            drawn.add(topology.devices)
    return rows
