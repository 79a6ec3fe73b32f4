"""Series of the scaling sections: cases that differ in their topology only, with speedup and efficiency."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from dlperf_sdk.analysis.case import LOADER_FACTS, Case, key
from dlperf_sdk.analysis.scaling import Scaled, Scaling, efficiency, speedup
from dlperf_sdk.reports.series import Merged, Workload, format_fact, labels
from dlperf_sdk.spec.strategy import NO_STRATEGY

_STARVED = 0.95
"""Share of the throughput with another loader, below which its own loader limits a series."""


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

    A series has the cases that differ in topology only; if `kind` is `strong`, they may also differ in batch size. A
    case on a single device, which has no strategy, is in the series of every strategy. Series with most devices come
    first, among these the fastest.

    Args:
        workload: The workload with its cases.
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
    """Find the series that are limited by their data loader.

    The loader limits a series if the same case is more than 5 % faster with another loader, everything else equal. The
    series are compared on their largest topology.

    Args:
        curves: All series of the report, each with at least one point.

    Returns:
        `id(series)` of each limited series → text on the same case with the fastest loader: the efficiency, if it is
        known, and the loader, as in `95.1% with dali, loader workers 8`.
    """
    groups: dict[tuple[str, ...], list[Series]] = {}
    for curve in curves:
        case = curve.points[-1].merged.case
        names = sorted(case.identifying_facts() - set(LOADER_FACTS))
        facts = (f"{name}={key(case.facts.get(name))}" for name in names)
        groups.setdefault((str(case.topology), *facts), []).append(curve)
    limits = {}
    for members in groups.values():
        for curve in members:
            best = max(
                (other.points[-1] for other in members), key=lambda point: point.merged.case.throughput
            )
            if curve.points[-1].merged.case.throughput < _STARVED * best.merged.case.throughput:
                limits[id(curve)] = _describe_faster(best)
    return limits


def _describe_faster(point: Point) -> str:
    loader, value = _describe_loader(point.merged.case) or "no stated loader", point.efficiency.value
    return loader if value is None else f"{value:.1%} with {loader}"


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
