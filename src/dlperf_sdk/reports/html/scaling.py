"""Show the scaling of cases: throughput and efficiency over devices, a series per case, beside perfect scaling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from attrs import frozen

from dlperf_sdk.analysis.case import key
from dlperf_sdk.analysis.scaling import Scaled, Scaling, efficiency, speedup
from dlperf_sdk.reports.blocks import Cell, Column, Notes, Table
from dlperf_sdk.reports.html import charts
from dlperf_sdk.reports.html.page import Abreast, Item, Plot, Section, Sortable
from dlperf_sdk.reports.html.rates import MOST, fold_workloads
from dlperf_sdk.reports.numbers import Scale, common_scale, format_count, quantity
from dlperf_sdk.reports.series import Merged, Workload, labels
from dlperf_sdk.spec.strategy import NO_STRATEGY

_PAGE_ROWS = 8


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
    by_workload = [(workload, series_of(workload)) for workload in workloads]
    return Section("Scaling", _shown(by_workload, "weak"), lede)


def strong(workloads: Sequence[Workload], weak: Sequence[Workload]) -> Section:
    """Strong scaling, for the `strong_workloads` that ran on more than one number of devices.

    Two points that are also points of weak series, as those of 1n1d with 64 and of 1n2d with 32 per device may be,
    are none of strong scaling that anybody has measured: they are left out.
    """
    elsewhere = {
        id(point.merged) for workload in weak for series in series_of(workload) for point in series.points
    }
    by_workload = [
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
    return Section("Strong scaling", _shown(by_workload, "strong"), lede)


def _shown(every: Sequence[tuple[Workload, list[Series]]], kind: Scaling) -> tuple[Item, ...]:
    scaled = [(workload, series) for workload, series in every if series]
    parts = [(workload.title, _items(workload, series, kind)) for workload, series in scaled[:MOST]]
    summary = _summary(scaled)
    return (*([summary] if summary else []), *fold_workloads(parts, len(scaled)))


def series_of(workload: Workload, kind: Scaling = "weak") -> list[Series]:
    """Return the series with two numbers of devices or more: those of most devices first, of these the fastest."""
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
        if len({run.case.topology.devices for run in one}) > 1
    ]
    several.sort(key=_reach, reverse=True)
    largest = [max(group, key=_size).case for group in several]
    names = labels(largest, ("topology", "batch_size"))
    return [Series(name, _points(group, kind)) for name, group in zip(names, several, strict=True)]


def _by_strategy(group: Sequence[Merged]) -> list[list[Merged]]:
    synchronized = [run for run in group if run.case.facts.get("strategy") != NO_STRATEGY]
    single = [run for run in group if run.case.facts.get("strategy") == NO_STRATEGY]
    strategies = list(dict.fromkeys(key(run.case.facts.get("strategy")) for run in synchronized))
    return [
        sorted(
            [*single, *(run for run in synchronized if key(run.case.facts.get("strategy")) == name)],
            key=_size,
        )
        for name in strategies
    ]


def _size(merged: Merged) -> tuple[int, int]:
    topology = merged.case.topology
    return topology.devices, topology.nodes


def _reach(group: Sequence[Merged]) -> tuple[int, float]:
    return max((run.case.topology.devices, run.case.throughput) for run in group)


def _points(group: Sequence[Merged], kind: Scaling) -> tuple[Point, ...]:
    among = [run.case for run in group]
    return tuple(
        Point(
            run,
            speedup(run.case, among, scaling=kind),
            efficiency(run.case, among, scaling=kind),
        )
        for run in group
    )


_NAMES: dict[Scaling, tuple[str, str, str]] = {
    "weak": ("Scaling", "Speedup", "Efficiency"),
    "strong": ("Strong scaling", "Speedup of strong scaling", "Efficiency of strong scaling"),
}


def _items(workload: Workload, series: Sequence[Series], kind: Scaling) -> tuple[Item, ...]:
    unit, (throughputs, speedups, efficiencies) = workload.unit, _NAMES[kind]
    how = common_scale([point.merged.case.throughput for curve in series for point in curve.points], unit)
    drawn = series[: charts.MOST_SERIES]
    numbers, reasons = _numbers(series, how)
    plots = [
        Plot(
            f"{throughputs}: {workload.title}",
            _describe(series, how.unit, len(drawn)),
            partial(charts.scaling, [row for curve in drawn for row in _rows(curve, how)], how.unit),
            numbers,
        )
    ]
    rows = [row for curve in drawn for row in _efficiencies(curve)]
    if rows:
        faster = [row for curve in drawn for row in _speedups(curve)]
        plots.append(
            Plot(
                f"{speedups}: {workload.title}",
                "Throughput over that of one device of the same case. Dashed: perfect scaling.",
                partial(charts.speedup, faster),
                _table_by_devices(drawn, _speedups),
            )
        )
        plots.append(
            Plot(
                f"{efficiencies}: {workload.title}",
                _describe_efficiency(drawn),
                partial(charts.efficiency, rows),
                _table_by_devices(drawn, _efficiencies),
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


def _numbers(series: Sequence[Series], how: Scale) -> tuple[Table, list[str]]:
    """Every point, and why some have no speedup."""
    reasons: list[str] = []
    rows: list[tuple[Cell | str, ...]] = []
    for curve in series:
        for point in curve.points:
            case, scaled = point.merged.case, point.speedup
            if scaled.reason and scaled.reason not in reasons:
                reasons.append(scaled.reason)
            mark = Cell(f"– [{reasons.index(scaled.reason) + 1}]", "quiet") if scaled.reason else None
            low, high = point.merged.low, point.merged.high
            rows.append(
                (
                    curve.name,
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


def _table_by_devices(series: Sequence[Series], rows_of: Callable[[Series], list[dict[str, Any]]]) -> Table:
    counts = sorted({point.merged.case.topology.devices for curve in series for point in curve.points})
    rows = []
    for curve in series:
        values = {row["devices"]: row["shown"] for row in reversed(rows_of(curve))}
        rows.append((curve.name, *(values.get(count, Cell("–", "quiet")) for count in counts)))
    columns = (Column("series"), *(Column(format_count(count, "device"), right=True) for count in counts))
    return Table(columns, tuple(rows))


def _describe(series: Sequence[Series], unit: str, drawn: int) -> str:
    points = [(curve, point) for curve in series for point in curve.points]
    counts = sorted({point.merged.case.topology.devices for _, point in points})
    best, most = max(points, key=lambda entry: entry[1].merged.case.throughput)
    rest = f" {len(series) - drawn} more are in the table only." if drawn < len(series) else ""
    return (
        f"{format_count(drawn, 'line')} from {counts[0]} to {format_count(counts[-1], 'device')}. The highest "
        "throughput "
        f"is {quantity(most.merged.case.throughput, unit)}: {best.name} on {most.merged.case.topology}.{rest}"
    )


def _describe_efficiency(series: Sequence[Series]) -> str:
    """Return the best and the worst efficiency on the largest topology that two series share."""
    by_topology: dict[tuple[int, int], list[tuple[float, Series]]] = {}
    for curve in series:
        for point in curve.points:
            if point.efficiency.value is not None and point.merged.case.topology.devices > 1:
                by_topology.setdefault(_size(point.merged), []).append((point.efficiency.value, curve))
    text = "Percent of perfect scaling."
    shared = [size for size, values in by_topology.items() if len(values) > 1]
    if not shared:
        return text
    largest = by_topology[max(shared)]
    (best, first), (worst, last) = (choose(largest, key=lambda entry: entry[0]) for choose in (max, min))
    topology = next(
        point.merged.case.topology for point in first.points if _size(point.merged) == max(shared)
    )
    return f"{text} On {topology} the best is {first.name} with {best:.1%}, the worst {last.name} with {worst:.1%}."


def _summary(workloads: Sequence[tuple[Workload, Sequence[Series]]]) -> Sortable | None:
    """Return a row per series at its largest topology, the worst efficiency of the most devices first."""
    rows: list[tuple[tuple[int, float], tuple[str, ...]]] = []
    for workload, series in workloads:
        for curve in series:
            values = [(point, point.efficiency.value) for point in curve.points if point.efficiency.value]
            if len(values) < 2:
                continue
            last, value = values[-1]
            drops = [
                (after - before, f"{one.merged.case.topology} → {other.merged.case.topology}")
                for (one, before), (other, after) in pairwise(values)
            ]
            drop, where = min(drops)
            steepest = f"{where}: {100 * drop:+.1f} points" if drop < 0 else "no drop"
            topology = last.merged.case.topology
            rows.append(
                (
                    (-topology.devices, value),
                    (
                        workload.title,
                        curve.name,
                        str(topology),
                        f"{last.speedup.value:.2f}×",
                        f"{value:.1%}",
                        steepest,
                    ),
                )
            )
    if len(rows) < 2:
        return None
    columns = (
        Column("workload"),
        Column("case"),
        Column("topology", whole=True),
        Column("speedup", right=True),
        Column("efficiency", right=True),
        Column("steepest drop of efficiency"),
    )
    table = Table(
        columns, tuple(row for _, row in sorted(rows)), "Efficiency at the largest topology, the worst first"
    )
    return Sortable(table, ("workload", "topology"), _PAGE_ROWS)
