"""Rows of the summary of scaling: what the efficiencies of each series show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from attrs import frozen

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.reports.html.scaling_series import Point, Series
from dlperf_sdk.reports.numbers import quantity
from dlperf_sdk.reports.series import Workload, describe_lacked_compilers, labels
from dlperf_sdk.spec.compiler import COMPILERS
from dlperf_sdk.spec.values import TopologySpec

GOOD_EFFICIENCY = 0.9
"""Efficiency below which a series is said to scale badly."""


@frozen
class Row:
    """One series with what its efficiencies show."""

    workload: str
    """Title of the workload."""
    name: str
    """Label of the series among those of its model, without the workload and the framework's version."""
    version: str
    """Version of the framework; empty if it is not stated."""
    model: str
    """Name of the model."""
    precision: str
    """Name of the precision."""
    topology: TopologySpec
    """The largest topology."""
    speedup: float
    """Speedup at the largest topology."""
    efficiency: float
    """Efficiency at the largest topology."""
    efficiencies: Mapping[TopologySpec, float]
    """Each measured topology → the efficiency there, in ascending order of devices."""
    throughput: str
    """Throughput at the largest topology, with its unit."""
    compiler: str
    """`with xla` or `without xla` where the framework was measured with a compiler as well; else empty."""
    below: str
    """Topology of the first efficiency below 90 %, or the two measured ones that it lies between; or `never`."""
    drop: float
    """Steepest drop of the efficiency between two topologies, per doubling of the devices, as a fraction of perfect
    scaling; 0 without any."""
    step: str
    """The two topologies of the steepest drop; `no drop` without any."""
    limit: str
    """Efficiency of the same case with a faster loader, as text; empty if no loader is known to be faster."""

    @property
    def order(self) -> tuple[str, str, int, float]:
        """Sort key: model, precision, most devices first, and among these the lowest efficiency first."""
        return self.model, self.precision, -self.topology.devices, self.efficiency


def rows_of(workloads: Sequence[tuple[Workload, Sequence[Series]]], limits: Mapping[int, str]) -> list[Row]:
    """Return a row for each series with at least two efficiencies.

    Rows are sorted by model and precision, then by the number of devices, the largest first, then by efficiency, the
    lowest first.

    Args:
        workloads: Workloads with their series, from `series_of`.
        limits: `id(series)` of each series that its data loader limits → the faster case as text, as
            `find_loader_limits` returns it for all series.
    """
    curves = [curve for _, series in workloads for curve in series]
    names = _names_without_workload(curves)
    rows = [
        row
        for workload, series in workloads
        for curve in series
        if (row := _summarize(workload, curve, curves, names[id(curve)], limits))
    ]
    return sorted(rows, key=lambda row: row.order)


def _summarize(
    workload: Workload,
    curve: Series,
    curves: Sequence[Series],
    name: str,
    limits: Mapping[int, str],
) -> Row | None:
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
    return Row(
        workload=workload.title,
        name=name,
        version=str(facts.get("framework_version", "")),
        model=str(facts.get("model", "")),
        precision=str(facts.get("precision", "")),
        topology=case.topology,
        speedup=last.speedup.value or 0.0,
        efficiency=value,
        efficiencies={point.merged.case.topology: share for point, share in values},
        throughput=quantity(case.throughput, case.unit),
        compiler=_describe_compiler(case, [other.points[-1].merged.case for other in curves]),
        below=_find_below(values),
        drop=max(0.0, -drop),
        step=step if drop < 0 else "no drop",
        limit=limits.get(id(curve), ""),
    )


def _describe_compiler(case: Case, others: Sequence[Case]) -> str:
    """Return the compiler of a case, or those that its framework was measured with for this model, and it lacks."""
    compiler = case.facts.get("compiler")
    return (
        describe_lacked_compilers(case, others)
        if compiler in (None, COMPILERS.default)
        else f"with {compiler}"
    )


def _find_below(values: Sequence[tuple[Point, float]]) -> str:
    """Return the first topology below 90 %, such as `at 1n8d`, or `between 1n1d and 1n4d` if 1n2d was not measured."""
    index = next((i for i, (_, share) in enumerate(values) if share < GOOD_EFFICIENCY), None)
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
