"""What scales worst and best: a row per model and precision, and a row per series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from attrs import frozen

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.reports.blocks import Column, Paragraph, Table
from dlperf_sdk.reports.html.page import Folded, Item, Sortable
from dlperf_sdk.reports.html.scaling_series import Point, Series, find_loader_limits
from dlperf_sdk.reports.numbers import quantity
from dlperf_sdk.reports.series import Workload, labels
from dlperf_sdk.spec.compiler import COMPILERS
from dlperf_sdk.spec.values import TopologySpec

_PAGE_ROWS = 20
_LIMITED = "limited by its loader"
_BELOW = "falls below 90 %"
"""Title of the column with the topology of the first efficiency below 90 %."""
_GOOD_EFFICIENCY = 0.9
"""Efficiency below which a series is said to scale badly."""


@frozen
class _Row:
    """One series with what its efficiencies show."""

    workload: str
    name: str
    version: str
    model: str
    precision: str
    topology: TopologySpec
    """The largest topology."""
    speedup: float
    """Speedup at the largest topology."""
    efficiency: float
    """Efficiency at the largest topology."""
    throughput: str
    """Throughput at the largest topology, with its unit."""
    compiler: str
    """`with xla` or `without xla` where the framework was measured with a compiler as well; else empty."""
    below: str
    """Topology of the first efficiency below 90 %, or the two measured ones that it lies between; or `never`."""
    drop: float
    """Steepest drop of the efficiency between two topologies, per doubling of the devices; 0 without any."""
    step: str
    """The two topologies of the steepest drop."""
    limit: str
    """Efficiency of the same case with a faster loader, as text; empty if no loader is known to be faster."""

    @property
    def order(self) -> tuple[int, float]:
        """Sort key: series with most devices first, among these those with the lowest efficiency."""
        return -self.topology.devices, self.efficiency


def summary_items(workloads: Sequence[tuple[Workload, Sequence[Series]]]) -> tuple[Item, ...]:
    """Return a table of the worst and best series of each model and precision, and a table with a row per series.

    Both name where the efficiency falls below 90 %, and the steepest drop of the efficiency between two
    topologies, in percentage points per doubling of the devices. Series with fewer than two efficiencies are left out.
    A series that its loader limits is not named as the worst: a sentence lists these. The result is empty with fewer
    than two series.

    Args:
        workloads: Workloads with their series.
    """
    curves = [curve for _, series in workloads for curve in series]
    names, limits = _names_without_workload(curves), find_loader_limits(curves)
    rows = [
        row
        for workload, series in workloads
        for curve in series
        if (row := _summarize(workload, curve, curves, names[id(curve)], limits.get(id(curve), "")))
    ]
    if len(rows) < 2:
        return ()
    rows.sort(key=lambda row: row.order)
    limited = "; ".join(
        f"{_describe(row, [])}: {row.efficiency:.1%} ({row.limit})" for row in rows if row.limit
    )
    sentence = f"Not named as the worst, because the data loader limits it: {limited}."
    items = (Paragraph(sentence, "doubt"),) if limited else ()
    return _tabulate_extremes([row for row in rows if not row.limit] or rows), *items, _fold_series(rows)


def _summarize(
    workload: Workload, curve: Series, curves: Sequence[Series], name: str, limit: str
) -> _Row | None:
    """Return the row of a series among others; None if it has fewer than two efficiencies."""
    values = [(point, point.efficiency.value) for point in curve.points if point.efficiency.value]
    if len(values) < 2:
        return None
    last, value = values[-1]
    drop, step = min(
        ((after - before) / _doublings(first, second), f"{_place(first)} → {_place(second)}")
        for (first, before), (second, after) in pairwise(values)
    )
    case, facts = last.merged.case, last.merged.case.facts
    return _Row(
        workload=workload.title,
        name=name,
        version=str(facts.get("framework_version", "")),
        model=str(facts.get("model", "")),
        precision=str(facts.get("precision", "")),
        topology=case.topology,
        speedup=last.speedup.value or 0.0,
        efficiency=value,
        throughput=quantity(case.throughput, case.unit),
        compiler=_describe_compiler(case, [other.points[-1].merged.case for other in curves]),
        below=_find_below(values),
        drop=max(0.0, -drop),
        step=step if drop < 0 else "no drop",
        limit=limit,
    )


def _describe_compiler(case: Case, others: Sequence[Case]) -> str:
    """Return the compiler of a case, or those that its framework was measured with for this model, and it lacks."""
    compilers = {
        str(other.facts["compiler"])
        for other in others
        if other.facts.get("compiler") not in (None, COMPILERS.default)
        and all(other.facts.get(name) == case.facts.get(name) for name in ("framework", "model"))
    }
    compiler = str(case.facts.get("compiler"))
    return (
        f"with {compiler}"
        if compiler in compilers
        else ", ".join(f"without {name}" for name in sorted(compilers))
    )


def _find_below(values: Sequence[tuple[Point, float]]) -> str:
    """Return the first topology below 90 %, such as `at 1n8d`, or `between 1n1d and 1n4d` if 1n2d was not measured."""
    index = next((i for i, (_, share) in enumerate(values) if share < _GOOD_EFFICIENCY), None)
    if index is None:
        return "never"
    topologies = [point.merged.case.topology for point, _ in values[max(0, index - 1) : index + 1]]
    between = _list_between(topologies[0], topologies[-1])
    return f"between {topologies[0]} and {topologies[-1]}" if between else f"at {topologies[-1]}"


def _list_between(smaller: TopologySpec, larger: TopologySpec) -> list[str]:
    """Return the topologies on the way from one to another: first the devices of a node double, then the nodes."""
    nodes, devices = smaller.nodes, smaller.devices_per_node
    between: list[str] = []
    while True:
        if devices < larger.devices_per_node:
            devices *= 2
        else:
            nodes *= 2
        if nodes * devices >= larger.devices:
            return between
        between.append(f"{nodes}n{devices}d")


def _place(point: Point) -> str:
    return str(point.merged.case.topology)


def _doublings(smaller: Point, larger: Point) -> float:
    """Return how many times the devices double from one point of a series to another; 1 for as many devices."""
    ratio = larger.merged.case.topology.devices / smaller.merged.case.topology.devices
    return math.log2(ratio) if ratio > 1 else 1.0


def _tabulate_extremes(rows: Sequence[_Row]) -> Table:
    """Return the worst and the best series of each model and precision, on the largest topology that it has.

    Args:
        rows: The series in their order.
    """
    groups: dict[tuple[str, str], list[_Row]] = {}
    for row in rows:
        groups.setdefault((row.model, row.precision), []).append(row)
    cells = []
    for (model, precision), members in groups.items():
        worst = members[0]
        best = [row for row in members if row.topology.devices == worst.topology.devices][-1]
        cells.append(
            (
                model,
                precision,
                str(worst.topology),
                _describe(worst, members),
                _format_efficiency(worst),
                worst.below,
                _format_drop(worst),
                "the only series" if best is worst else _describe(best, members),
                "" if best is worst else _format_efficiency(best),
            )
        )
    columns = (
        Column("model", key=True),
        Column("precision", key=True),
        Column("topology", whole=True, key=True),
        Column("scales worst"),
        Column("efficiency and throughput"),
        Column(_BELOW),
        Column("steepest drop"),
        Column("scales best"),
        Column("its efficiency and throughput"),
    )
    return Table(columns, tuple(cells), "What scales worst and best, for each model and precision")


def _format_efficiency(row: _Row) -> str:
    return f"{row.efficiency:.1%}, {row.throughput}"


def _describe(row: _Row, members: Sequence[_Row]) -> str:
    """Return the name of a series with its workload, and whether it is the only one of its framework.

    Args:
        row: The series.
        members: All series of its model and precision.
    """
    workload = row.workload.removeprefix(f"{row.model}, ").replace(" per device", "")
    name = row.name.replace(f" {row.precision}", "")
    framework, _, rest = name.partition(" ")
    described = " ".join(filter(None, (framework, row.version.partition("+")[0], rest)))
    siblings = [other for other in members if other.name.partition(" ")[0] == framework]
    compiler = "" if set(row.compiler.split()) & set(name.split()) else row.compiler
    only = f"the only series of {framework}" if len(members) > len(siblings) == 1 else ""
    return ", ".join(filter(None, (described, compiler, f"batch {workload}", only)))


def _format_drop(row: _Row) -> str:
    return f"{row.step}: {100 * row.drop:.1f} points per doubling" if row.drop else row.step


def _fold_series(rows: Sequence[_Row]) -> Folded:
    columns = (
        Column("model", key=True),
        Column("precision", key=True),
        Column("workload", key=True),
        Column("case", key=True),
        Column("version", key=True),
        Column("topology", whole=True, key=True),
        Column("speedup", right=True),
        Column("efficiency", right=True),
        Column(_BELOW),
        Column("throughput", right=True),
        Column("steepest drop, points per doubling", right=True),
        Column("where", whole=True),
        Column(_LIMITED),
    )
    cells = [
        (
            row.model,
            row.precision,
            row.workload,
            ", ".join(filter(None, (row.name, row.compiler))),
            row.version,
            str(row.topology),
            f"{row.speedup:.2f}×",
            f"{row.efficiency:.1%}",
            row.below,
            row.throughput,
            f"{100 * row.drop:.1f}" if row.drop else "",
            row.step,
            f"yes: {row.limit}" if row.limit else "not known",
        )
        for row in rows
    ]
    absent = {
        *(() if any(row.version for row in rows) else ("version",)),
        *(() if any(row.limit for row in rows) else (_LIMITED,)),
    }
    table = Table(columns, tuple(cells), "Efficiency of each series at its largest topology").select(
        [index for index, column in enumerate(columns) if column.title not in absent]
    )
    filters = ("model", "precision", "workload", "topology", _BELOW, _LIMITED)
    return Folded("Every series", (Sortable(table, filters, _PAGE_ROWS),))


def _names_without_workload(curves: Sequence[Series]) -> dict[int, str]:
    """Return the id of each series → its label among those of its model.

    The workload and the framework's version, which have their own columns, are not in it.
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
