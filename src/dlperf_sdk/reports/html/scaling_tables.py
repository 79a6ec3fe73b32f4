"""Tables and descriptions of the scaling section."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from dlperf_sdk.reports.blocks import Cell, Column, Paragraph, Table
from dlperf_sdk.reports.html.forecast import Forecast
from dlperf_sdk.reports.html.page import Item, Sortable
from dlperf_sdk.reports.html.scaling_series import Point, Series, size_of
from dlperf_sdk.reports.numbers import Scale, format_count, quantity
from dlperf_sdk.reports.series import Workload, labels

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
                none if after.throughput is None else scale.format_alone(after.throughput),
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


def describe(series: Sequence[Series], drawn: Sequence[Series], unit: str) -> str:
    """Return two sentences on the drawn lines and on the highest throughput of all.

    Args:
        series: All series, at least one.
        drawn: The series that the plot draws.
        unit: Unit of the throughputs.
    """
    points = [(curve, point) for curve in series for point in curve.points]
    counts = sorted({point.merged.case.topology.devices for curve in drawn for point in curve.points})
    lines, of_all = format_count(len(drawn), "line"), ""
    if len(drawn) < len(series):
        lines, of_all = f"{len(drawn)} of {format_count(len(series), 'line')}", f" of all {len(series)}"
    best, top = max(points, key=lambda entry: entry[1].merged.case.throughput)
    return (
        f"{lines} from {counts[0]} to {format_count(counts[-1], 'device')}. The highest throughput{of_all} is "
        f"{quantity(top.merged.case.throughput, unit)}: {best.name}{_mark_of_another_plot(best, drawn)} on "
        f"{top.merged.case.topology}."
    )


def _mark_of_another_plot(curve: Series, drawn: Sequence[Series]) -> str:
    return "" if any(curve is other for other in drawn) else " (in another plot)"


def describe_efficiency(series: Sequence[Series], drawn: Sequence[Series]) -> str:
    """Return sentences on the best and worst efficiency on the largest topology that two series share.

    Without such a topology, only the meaning of the numbers is stated.

    Args:
        series: All series.
        drawn: The series that the plot draws.
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
    of_all = "" if len(drawn) == len(series) else f" of all {len(series)}"
    return (
        f"{text} On {topology} the best{of_all} is {first.name}{_mark_of_another_plot(first, drawn)} with {best:.1%}, "
        f"the worst {last.name}{_mark_of_another_plot(last, drawn)} with {worst:.1%}."
    )


def _place(point: Point) -> str:
    return str(point.merged.case.topology)


def _doublings(smaller: Point, larger: Point) -> float:
    """Return how many times the devices double from one point of a series to another; 1 for as many devices."""
    ratio = larger.merged.case.topology.devices / smaller.merged.case.topology.devices
    return math.log2(ratio) if ratio > 1 else 1.0


def summary_items(workloads: Sequence[tuple[Workload, Sequence[Series]]]) -> tuple[Item, ...]:
    """Return a sentence on the worst and best scaling series, and a table with a row per series.

    A row has the speedup and efficiency at the series' largest topology, and its steepest drop of efficiency
    between two topologies, in percentage points per doubling of the devices.
    Series with most devices come first, among these those with the lowest efficiency. Series with fewer than two
    efficiencies are left out. The result is empty with fewer than two series.

    Args:
        workloads: Workloads with their series.
    """
    curves = [curve for _, series in workloads for curve in series]
    names = _names_without_workload(curves)
    rows: list[tuple[tuple[int, float], Series, tuple[str, ...]]] = []
    for workload, series in workloads:
        for curve in series:
            values = [(point, point.efficiency.value) for point in curve.points if point.efficiency.value]
            if len(values) < 2:
                continue
            last, value = values[-1]
            drop, step = min(
                ((after - before) / _doublings(first, second), f"{_place(first)} → {_place(second)}")
                for (first, before), (second, after) in pairwise(values)
            )
            steepest = (f"{-100 * drop:.1f}", step) if drop < 0 else ("", "no drop")
            topology = last.merged.case.topology
            rows.append(
                (
                    (-topology.devices, value),
                    curve,
                    (
                        workload.title,
                        names[id(curve)],
                        str(last.merged.case.facts.get("framework_version", "")),
                        str(topology),
                        f"{last.speedup.value:.2f}×",
                        f"{value:.1%}",
                        *steepest,
                    ),
                )
            )
    if len(rows) < 2:
        return ()
    rows.sort(key=lambda row: row[0])
    (devices, _), curve, (workload_title, _, _, place, _, share, drop_text, step) = rows[0]
    text = f"On {place}, {curve.name} ({workload_title}) scales worst: {share} of perfect scaling"
    text += f"; its steepest drop is {step}: {drop_text} points per doubling" if drop_text else ""
    _, best, cells = [row for row in rows if row[0][0] == devices][-1]
    if best is not curve:
        text += f". {best.name} ({cells[0]}) scales best: {cells[5]}"
    columns = (
        Column("workload", key=True),
        Column("case", key=True),
        Column("version", key=True),
        Column("topology", whole=True, key=True),
        Column("speedup", right=True),
        Column("efficiency", right=True),
        Column("steepest drop, points per doubling", right=True),
        Column("where", whole=True),
    )
    has_versions = any(row[2] for *_, row in rows)
    visible = [index for index, column in enumerate(columns) if column.title != "version" or has_versions]
    table = Table(
        tuple(columns[index] for index in visible),
        tuple(tuple(row[index] for index in visible) for *_, row in rows),
        "Efficiency of each series at its largest topology",
    )
    return Paragraph(f"{text}."), Sortable(table, ("workload", "topology"), _PAGE_ROWS)


def _names_without_workload(curves: Sequence[Series]) -> dict[int, str]:
    """Return the id of each series → its label among those of its model.

    The workload and the framework's version, which have columns of their own, are not in it.
    """
    names: dict[int, str] = {}
    by_model: dict[str, list[Series]] = {}
    for curve in curves:
        by_model.setdefault(str(curve.points[-1].merged.case.facts.get("model")), []).append(curve)
    for members in by_model.values():
        cases = [curve.points[-1].merged.case for curve in members]
        stated = {name for case in cases for name, role in case.roles.items() if role == "workload"}
        labelled = labels(cases, ("topology", "framework_version", *stated))
        names |= dict(zip(map(id, members), labelled, strict=True))
    return names
