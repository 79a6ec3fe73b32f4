"""Series of the scaling sections: cases that differ in their topology only, with speedup and efficiency."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from dlperf_sdk.analysis.case import LOADER_FACTS, Case, key
from dlperf_sdk.analysis.scaling import Scaled, Scaling, efficiency, speedup
from dlperf_sdk.reports.series import Merged, Workload, format_fact, labels
from dlperf_sdk.spec.strategy import NO_STRATEGY

_STARVED = 0.95
"""Share of the throughput with another loader, below which a series is limited by its own."""


@frozen
class Point:
    """One case of a series, with its speedup and efficiency relative to one device."""

    merged: Merged
    """The merged case."""
    speedup: Scaled
    """Its speedup, or the reason why there is none."""
    efficiency: Scaled
    """Its efficiency as a fraction of perfect scaling, or the reason why there is none."""


@frozen
class Series:
    """A case on several topologies, in ascending order of devices."""

    name: str
    """Label that distinguishes the series from the others of its workload."""
    points: tuple[Point, ...]
    """The case on each topology, at least two."""


def series_of(workload: Workload, kind: Scaling = "weak") -> list[Series]:
    """Return the series of a workload that have at least two numbers of devices.

    Series with most devices come first, among these the fastest. A single device without a strategy belongs to
    the series of every strategy.

    Args:
        workload: The workload.
        kind: `weak`: the batch size per device is equal in a series; `strong`: it may differ.
    """
    varying = {"topology", "strategy"} if kind == "weak" else {"topology", "strategy", "batch_size"}
    groups: dict[tuple[str, ...], list[Merged]] = {}
    for merged in workload.merged:
        # A single device synchronizes nothing: it belongs to the series of every strategy.
        fixed = sorted(merged.case.identifying_facts() - varying)
        groups.setdefault(tuple(f"{name}={key(merged.case.facts.get(name))}" for name in fixed), []).append(
            merged
        )
    by_strategy = [
        runs
        for group in groups.values()
        for runs in _by_strategy(group)
        if len({run.case.topology.devices for run in runs}) > 1
    ]
    by_strategy.sort(key=_reach, reverse=True)
    largest = [max(group, key=size_of).case for group in by_strategy]
    names = labels(largest, ("topology", "batch_size"))
    return [Series(name, _points(group, kind)) for name, group in zip(names, by_strategy, strict=True)]


def find_loader_limits(curves: Sequence[Series]) -> dict[int, str]:
    """Return the `id` of each series that its loader limits → the faster loader and its efficiency, as text.

    The two series differ in facts of the loader only, and are compared on their largest topology: the throughput of the
    limited one is below 95 % of the other's. The text has no efficiency if that of the faster series is unknown.

    Args:
        curves: All series of the report.
    """
    groups: dict[tuple[str, ...], list[Series]] = {}
    for curve in curves:
        case = curve.points[-1].merged.case
        names = sorted(case.identifying_facts() - set(LOADER_FACTS))
        facts = (f"{name}={key(case.facts.get(name))}" for name in names)
        groups.setdefault((str(case.topology), *facts), []).append(curve)
    limits = {}
    for members in groups.values():
        best = max((curve.points[-1] for curve in members), key=lambda point: point.merged.case.throughput)
        case = best.merged.case
        loader = _describe_loader(case)
        for curve in members:
            if curve.points[-1].merged.case.throughput < _STARVED * case.throughput:
                value = best.efficiency.value
                limits[id(curve)] = loader if value is None else f"{value:.1%} with {loader}"
    return limits


def find_loader_suspicions(curves: Sequence[Series]) -> dict[int, str]:
    """Return the `id` of each series that its loader probably limits → a faster case with another loader, as text.

    The two cases differ in facts of the loader, in loss scaling and in batch size only, and the faster one has the
    smaller batch size. A smaller batch is no reason to be faster, so the loader is. They are compared on the largest
    topology of the series. A series that is in `find_loader_limits` is left out.

    Args:
        curves: All series of the report.
    """
    limits = find_loader_limits(curves)
    varying = {*LOADER_FACTS, "batch_size", "loss_scale"}
    groups: dict[tuple[str, ...], list[Series]] = {}
    for curve in curves:
        case = curve.points[-1].merged.case
        names = sorted(case.identifying_facts() - varying)
        facts = (f"{name}={key(case.facts.get(name))}" for name in names)
        groups.setdefault((str(case.topology), *facts), []).append(curve)
    suspicions = {}
    for members in groups.values():
        best = max((curve.points[-1] for curve in members), key=lambda point: point.merged.case.throughput)
        for curve in members:
            case, faster = curve.points[-1].merged.case, best.merged.case
            has_other_loader = any(
                key(case.facts.get(name)) != key(faster.facts.get(name)) for name in LOADER_FACTS
            )
            is_faster = case.throughput < _STARVED * faster.throughput and faster.batch_size < case.batch_size
            if id(curve) not in limits and has_other_loader and is_faster and best.efficiency.value:
                suspicions[id(curve)] = (
                    f"{best.efficiency.value:.1%} with {_describe_loader(faster)}, batch {faster.batch_size}"
                )
    return suspicions


def _describe_loader(case: Case) -> str:
    return ", ".join(format_fact(name, case.facts[name]) for name in LOADER_FACTS if name in case.facts)


def _by_strategy(group: Sequence[Merged]) -> list[list[Merged]]:
    synchronized = [run for run in group if run.case.facts.get("strategy") != NO_STRATEGY]
    single = [run for run in group if run.case.facts.get("strategy") == NO_STRATEGY]
    strategies = list(dict.fromkeys(key(run.case.facts.get("strategy")) for run in synchronized))
    return [
        sorted(
            [*single, *(run for run in synchronized if key(run.case.facts.get("strategy")) == name)],
            key=size_of,
        )
        for name in strategies
    ]


def size_of(merged: Merged) -> tuple[int, int]:
    """Return the number of devices and the number of nodes of a merged case, as a sort key."""
    topology = merged.case.topology
    return topology.devices, topology.nodes


def _reach(group: Sequence[Merged]) -> tuple[int, float]:
    return max((run.case.topology.devices, run.case.throughput) for run in group)


def _points(group: Sequence[Merged], kind: Scaling) -> tuple[Point, ...]:
    candidates = [run.case for run in group]
    return tuple(
        Point(
            run,
            speedup(run.case, candidates, scaling=kind),
            efficiency(run.case, candidates, scaling=kind),
        )
        for run in group
    )
