"""Tables and descriptions of the scaling section."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from dlperf_sdk.reports.blocks import Cell, Column, Paragraph, Table
from dlperf_sdk.reports.html.forecast import Forecast
from dlperf_sdk.reports.html.page import Item, Sortable
from dlperf_sdk.reports.html.scaling_series import Series, size_of
from dlperf_sdk.reports.numbers import Scale, format_count, quantity
from dlperf_sdk.reports.series import Workload

_PAGE_ROWS = 8


def numbers_table(
    series: Sequence[Series], scale: Scale, predicted: Sequence[Forecast] = ()
) -> tuple[Table, list[str]]:
    """Return a table with a row for each point and prediction, and the footnotes that its cells refer to.

    Args:
        series: The series.
        scale: Scale of the throughputs.
        predicted: Predictions of larger topologies.
    """
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
                    scale.format_alone(case.throughput),
                    Cell("–", "quiet")
                    if low is None or high is None
                    else scale.format_interval_alone(low, high),
                    mark or f"{scaled.value:.2f}×",
                    mark or f"{point.efficiency.value:.1%}",
                )
            )
    for forecast in predicted:
        after, none = forecast.prediction, Cell("–", "quiet")
        rows.append(
            (
                forecast.name,
                f"{after.topology} (predicted, 90 % interval)",
                str(after.topology.devices),
                scale.format_alone(after.throughput),
                scale.format_interval_alone(after.low, after.high),
                none,
                none,
            )
        )
        reasons += [note for note in after.notes if note not in reasons]
    columns = (
        Column("series", key=True),
        Column("topology", key=True),
        Column("devices", right=True),
        Column(f"throughput, {scale.unit}", right=True),
        Column("interval", right=True),
        Column("speedup", right=True),
        Column("efficiency", right=True),
    )
    return Table(columns, tuple(rows)), reasons


def table_by_devices(series: Sequence[Series], rows_of: Callable[[Series], list[dict[str, Any]]]) -> Table:
    """Return a table with a row per series and a column per number of devices.

    Args:
        series: The series.
        rows_of: Function that returns the points of a series, as rows with `devices` and the text `shown`.
    """
    counts = sorted({point.merged.case.topology.devices for curve in series for point in curve.points})
    rows = []
    for curve in series:
        values = {row["devices"]: row["shown"] for row in reversed(rows_of(curve))}
        rows.append((curve.name, *(values.get(count, Cell("–", "quiet")) for count in counts)))
    columns = (
        Column("series", key=True),
        *(Column(format_count(count, "device"), right=True) for count in counts),
    )
    return Table(columns, tuple(rows))


def describe(series: Sequence[Series], unit: str, drawn: int) -> str:
    """Return two or three sentences on the lines of a plot and on the highest throughput.

    Args:
        series: All series, at least one.
        unit: Unit of the throughputs.
        drawn: Number of series that are drawn; the others are in the table only.
    """
    points = [(curve, point) for curve in series for point in curve.points]
    counts = sorted({point.merged.case.topology.devices for _, point in points})
    best, top = max(points, key=lambda entry: entry[1].merged.case.throughput)
    rest = f" {len(series) - drawn} more are in the table only." if drawn < len(series) else ""
    return (
        f"{format_count(drawn, 'line')} from {counts[0]} to {format_count(counts[-1], 'device')}. The highest "
        "throughput "
        f"is {quantity(top.merged.case.throughput, unit)}: {best.name} on {top.merged.case.topology}.{rest}"
    )


def describe_efficiency(series: Sequence[Series]) -> str:
    """Return sentences on the best and worst efficiency on the largest topology that two series share.

    Without such a topology, only the meaning of the numbers is stated.
    """
    by_topology: dict[tuple[int, int], list[tuple[float, Series]]] = {}
    for curve in series:
        for point in curve.points:
            if point.efficiency.value is not None and point.merged.case.topology.devices > 1:
                by_topology.setdefault(size_of(point.merged), []).append((point.efficiency.value, curve))
    text = "Percent of perfect scaling."
    shared = [size for size, values in by_topology.items() if len(values) > 1]
    if not shared:
        return text
    largest = by_topology[max(shared)]
    (best, first), (worst, last) = (choose(largest, key=lambda entry: entry[0]) for choose in (max, min))
    topology = next(
        point.merged.case.topology for point in first.points if size_of(point.merged) == max(shared)
    )
    return f"{text} On {topology} the best is {first.name} with {best:.1%}, the worst {last.name} with {worst:.1%}."


def summary_items(workloads: Sequence[tuple[Workload, Sequence[Series]]]) -> tuple[Item, ...]:
    """Return a sentence on the worst and best scaling series, and a table with a row per series.

    A row has the speedup and efficiency at the series' largest topology, and its steepest drop of efficiency.
    Series with most devices come first, among these those with the lowest efficiency. Series with fewer than two
    efficiencies are left out. The result is empty with fewer than two series.

    Args:
        workloads: Workloads with their series.
    """
    rows: list[tuple[tuple[int, float], tuple[str, ...]]] = []
    for workload, series in workloads:
        for curve in series:
            values = [(point, point.efficiency.value) for point in curve.points if point.efficiency.value]
            if len(values) < 2:
                continue
            last, value = values[-1]
            drops = [
                (after - before, f"{first.merged.case.topology} → {second.merged.case.topology}")
                for (first, before), (second, after) in pairwise(values)
            ]
            drop, step = min(drops)
            steepest = f"{step}: {100 * drop:+.1f} points" if drop < 0 else "no drop"
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
        return ()
    rows.sort()
    (devices, _), worst = rows[0]
    best = [cells for (count, _), cells in rows if count == devices][-1]
    text = f"On {worst[2]}, {worst[1]} ({worst[0]}) scales worst: {worst[4]} of perfect scaling"
    text += "" if worst[5] == "no drop" else f"; its steepest drop is {worst[5]}"
    if best is not worst:
        text += f". {best[1]} ({best[0]}) scales best: {best[4]}"
    columns = (
        Column("workload", key=True),
        Column("case", key=True),
        Column("topology", whole=True, key=True),
        Column("speedup", right=True),
        Column("efficiency", right=True),
        Column("steepest drop of efficiency"),
    )
    table = Table(
        columns, tuple(row for _, row in rows), "Efficiency at the largest topology, the worst first"
    )
    return Paragraph(f"{text}."), Sortable(table, ("workload", "topology"), _PAGE_ROWS)
