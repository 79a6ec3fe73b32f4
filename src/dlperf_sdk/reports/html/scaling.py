"""Show the scaling of cases: throughput and efficiency over devices, a series per case, beside perfect scaling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from dlperf_sdk.analysis.case import key
from dlperf_sdk.analysis.scaling import Scaled, Scaling, efficiency, speedup
from dlperf_sdk.reports.blocks import Cell, Column, Notes, Table
from dlperf_sdk.reports.html import charts
from dlperf_sdk.reports.html.page import Abreast, Item, Plot, Section
from dlperf_sdk.reports.html.rates import MOST, folded
from dlperf_sdk.reports.numbers import Scale, common_scale, counted, quantity
from dlperf_sdk.reports.series import Merged, Workload, labels
from dlperf_sdk.spec.strategy import NO_STRATEGY

MOST_SERIES = 10
"""Lines of a plot: as many as there are colours."""


@frozen
class Point:
    """One case of a series, against one device of it."""

    merged: Merged
    speedup: Scaled
    efficiency: Scaled


@frozen
class Series:
    """A case on several topologies, the smallest first."""

    name: str
    points: tuple[Point, ...]


def section(workloads: Sequence[Workload]) -> Section:
    """Weak scaling, for the workloads that ran on more than one number of devices."""
    lede = (
        "The batch per device is held (weak scaling). Dashed: what each series would reach if every device added as "
        "much as the first. Speedup and efficiency are against one device of the very same case."
    )
    found = [(workload, series_of(workload)) for workload in workloads]
    return Section("Scaling", _shown(found, "weak"), lede)


def strong(workloads: Sequence[Workload], weak: Sequence[Workload]) -> Section:
    """Strong scaling, for the `strong_workloads` that ran on more than one number of devices.

    Two points that are also points of weak series, as those of 1n1d with 64 and of 1n2d with 32 per device may be,
    are none of strong scaling that anybody has measured: they are left out.
    """
    elsewhere = {
        id(point.merged) for workload in weak for series in series_of(workload) for point in series.points
    }
    found = [
        (
            workload,
            [
                series
                for series in series_of(workload, "strong")
                if len({point.merged.case.topology.devices for point in series.points}) > 2
                or not elsewhere.issuperset(id(point.merged) for point in series.points)
            ],
        )
        for workload in workloads
    ]
    lede = (
        "The global batch is held (strong scaling): the more devices, the fewer samples has each. Dashed: what each "
        "series would reach if every device added as much as the first. Speedup and efficiency are against one device "
        "with the whole batch."
    )
    return Section("Strong scaling", _shown(found, "strong"), lede)


def _shown(every: Sequence[tuple[Workload, list[Series]]], kind: Scaling) -> tuple[Item, ...]:
    found = [(workload, series) for workload, series in every if series]
    shown = [(workload.title, _items(workload, series, kind)) for workload, series in found[:MOST]]
    return folded(shown, len(found))


def series_of(workload: Workload, kind: Scaling = "weak") -> list[Series]:
    """The series that have cases on two numbers of devices or more: those that reach the most devices first, and of
    these the fastest."""
    unheld = {"topology", "strategy"} if kind == "weak" else {"topology", "strategy", "batch_size"}
    groups: dict[tuple[str, ...], list[Merged]] = {}
    for merged in workload.merged:
        # One device has nobody to meet: it belongs to the series of every strategy.
        held = sorted(merged.case.holds() - unheld)
        groups.setdefault(tuple(f"{name}={key(merged.case.facts.get(name))}" for name in held), []).append(
            merged
        )
    several = [
        one
        for group in groups.values()
        for one in _by_strategy(group)
        if len({each.case.topology.devices for each in one}) > 1
    ]
    several.sort(key=_reach, reverse=True)
    largest = [max(group, key=_size).case for group in several]
    names = labels(largest, ("topology", "batch_size"))
    return [Series(name, _points(group, kind)) for name, group in zip(names, several, strict=True)]


def _by_strategy(group: Sequence[Merged]) -> list[list[Merged]]:
    met = [each for each in group if each.case.facts.get("strategy") != NO_STRATEGY]
    alone = [each for each in group if each.case.facts.get("strategy") == NO_STRATEGY]
    strategies = list(dict.fromkeys(key(each.case.facts.get("strategy")) for each in met))
    return [
        sorted([*alone, *(each for each in met if key(each.case.facts.get("strategy")) == name)], key=_size)
        for name in strategies
    ]


def _size(merged: Merged) -> tuple[int, int]:
    topology = merged.case.topology
    return topology.devices, topology.nodes


def _reach(group: Sequence[Merged]) -> tuple[int, float]:
    return max((each.case.topology.devices, each.case.throughput) for each in group)


def _points(group: Sequence[Merged], kind: Scaling) -> tuple[Point, ...]:
    among = [each.case for each in group]
    return tuple(
        Point(
            each,
            speedup(each.case, among, scaling=kind),
            efficiency(each.case, among, scaling=kind),
        )
        for each in group
    )


_NAMES: dict[Scaling, tuple[str, str]] = {
    "weak": ("Scaling", "Efficiency"),
    "strong": ("Strong scaling", "Efficiency of strong scaling"),
}


def _items(workload: Workload, series: Sequence[Series], kind: Scaling) -> tuple[Item, ...]:
    unit, (throughputs, efficiencies) = workload.unit, _NAMES[kind]
    how = common_scale([point.merged.case.throughput for each in series for point in each.points], unit)
    drawn = series[:MOST_SERIES]
    numbers, reasons = _numbers(series, how)
    plots = [
        Plot(
            f"{throughputs}: {workload.title}",
            _said(series, how.unit, len(drawn)),
            charts.scaling([row for each in drawn for row in _rows(each, how)], how.unit),
            numbers,
        )
    ]
    rows = [row for each in drawn for row in _efficiencies(each)]
    if rows:
        plots.append(
            Plot(
                f"{efficiencies}: {workload.title}",
                _said_efficiency(drawn),
                charts.efficiency(rows),
                _efficiency_table(drawn),
            )
        )
    items: list[Item] = [Abreast(tuple(plots))]
    if reasons:
        items.append(Notes(tuple(reasons)))
    return tuple(items)


def _rows(series: Series, how: Scale) -> list[dict[str, Any]]:
    rows, drawn = [], set()
    for point in series.points:
        case, base = point.merged.case, point.speedup.baseline
        devices = case.topology.devices
        row = {
            "series": series.name,
            "devices": devices,
            "topology": str(case.topology),
            "value": case.throughput / how.divisor,
            "shown": f"{how.own(case.throughput)} {how.unit}",
            # Of several topologies with as many devices the line goes through the one with the fewest nodes.
            "line": devices not in drawn,
        }
        drawn.add(devices)
        if base is not None:
            row["ideal"] = base.throughput / base.topology.devices * devices / how.divisor
        if point.merged.low is not None and point.merged.high is not None:
            row |= {"low": point.merged.low / how.divisor, "high": point.merged.high / how.divisor}
            row["interval"] = how.own_interval(point.merged.low, point.merged.high)
        rows.append(row)
    return rows


def _efficiencies(series: Series) -> list[dict[str, Any]]:
    rows, drawn = [], set()
    for point in series.points:
        value, topology = point.efficiency.value, point.merged.case.topology
        if value is not None:
            rows.append(
                {
                    "series": series.name,
                    "devices": topology.devices,
                    "topology": str(topology),
                    "value": 100 * value,
                    "shown": f"{value:.1%}",
                    "line": topology.devices not in drawn,
                }
            )
            drawn.add(topology.devices)
    return rows


def _numbers(series: Sequence[Series], how: Scale) -> tuple[Table, list[str]]:
    """Every point, and why some have no speedup."""
    reasons: list[str] = []
    rows: list[tuple[Cell | str, ...]] = []
    for each in series:
        for point in each.points:
            case, scaled = point.merged.case, point.speedup
            if scaled.reason and scaled.reason not in reasons:
                reasons.append(scaled.reason)
            mark = Cell(f"– [{reasons.index(scaled.reason) + 1}]", "quiet") if scaled.reason else None
            low, high = point.merged.low, point.merged.high
            rows.append(
                (
                    each.name,
                    str(case.topology),
                    str(case.topology.devices),
                    how.own(case.throughput),
                    Cell("–", "quiet") if low is None or high is None else how.own_interval(low, high),
                    mark or f"{scaled.value:.2f}×",
                    mark or f"{point.efficiency.value:.1%}",
                )
            )
    columns = (
        Column("series"),
        Column("topology"),
        Column("devices", right=True),
        Column(f"throughput, {how.unit}", right=True),
        Column("interval", right=True),
        Column("speedup", right=True),
        Column("efficiency", right=True),
    )
    return Table(columns, tuple(rows)), reasons


def _efficiency_table(series: Sequence[Series]) -> Table:
    counts = sorted({point.merged.case.topology.devices for each in series for point in each.points})
    rows = []
    for each in series:
        found = {row["devices"]: row["shown"] for row in reversed(_efficiencies(each))}
        rows.append((each.name, *(found.get(count, Cell("–", "quiet")) for count in counts)))
    columns = (Column("series"), *(Column(counted(count, "device"), right=True) for count in counts))
    return Table(columns, tuple(rows))


def _said(series: Sequence[Series], unit: str, drawn: int) -> str:
    points = [(each, point) for each in series for point in each.points]
    counts = sorted({point.merged.case.topology.devices for _, point in points})
    best, most = max(points, key=lambda each: each[1].merged.case.throughput)
    rest = f" {len(series) - drawn} more are in the table only." if drawn < len(series) else ""
    return (
        f"{counted(drawn, 'line')} from {counts[0]} to {counted(counts[-1], 'device')}. The highest throughput "
        f"is {quantity(most.merged.case.throughput, unit)}: {best.name} on {most.merged.case.topology}.{rest}"
    )


def _said_efficiency(series: Sequence[Series]) -> str:
    """The best and the worst on the most devices that each series has."""
    last = [
        (each.points[-1].efficiency.value, each.name, each.points[-1].merged.case.topology)
        for each in series
        if each.points[-1].efficiency.value is not None
    ]
    said = "Percent of perfect scaling."
    if last:
        value, name, topology = max(last, key=lambda each: each[0] or 0)
        said += f" On its largest topology the best is {name} with {value:.1%} on {topology}"
        if len(last) > 1:
            value, name, topology = min(last, key=lambda each: each[0] or 0)
            said += f", the worst {name} with {value:.1%} on {topology}"
        said += "."
    return said
