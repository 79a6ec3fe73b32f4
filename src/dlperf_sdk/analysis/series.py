"""Series: the cases of a workload that differ in their topology only."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from dlperf_sdk.analysis.case import Case, cases, differing_facts, key
from dlperf_sdk.analysis.growth import Example
from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.strategy import NO_STRATEGY
from dlperf_sdk.spec.values import TopologySpec

RELEASE = ("framework", "framework_version", "implementation")
"""Facts that identify a release. Its series resemble each other, so they are held out together."""


def group_by_series(ungrouped: Iterable[Case]) -> list[dict[TopologySpec, Case]]:
    """Return the cases in series, each a mapping topology → case. The cases of a series differ in their topology only.

    A case on one device that states no strategy belongs to the series of every strategy. If two cases of a series
    have the same topology, the later one is used.
    """
    groups: dict[tuple[str, str], dict[TopologySpec, Case]] = {}
    for case in ungrouped:
        fixed = sorted(case.identifying_facts() - {"topology", "strategy"})
        held_facts = key({name: case.facts[name] for name in fixed})
        groups.setdefault((held_facts, str(case.facts.get("strategy", NO_STRATEGY))), {})[case.topology] = (
            case
        )
    for (held_facts, strategy), without_strategy in list(groups.items()):
        partners = [
            group for (facts, other), group in groups.items() if facts == held_facts and other != strategy
        ]
        if strategy == NO_STRATEGY and partners:
            for group in partners:
                group.update(
                    {topology: case for topology, case in without_strategy.items() if topology not in group}
                )
            del groups[held_facts, strategy]
    return list(groups.values())


def require_one_series(all_cases: Sequence[Case]) -> dict[TopologySpec, Case]:
    """Return the cases of one series as topology → case, after a check that they form one series.

    Args:
        all_cases: The cases, in any order.

    Raises:
        AnalysisError: There is no case, the cases form several series, or two cases have the same topology.
    """
    if not all_cases:
        raise AnalysisError("There is nothing to predict from.")
    groups = group_by_series(all_cases)
    if len(groups) > 1:
        names = ", ".join(
            sorted((differing_facts(all_cases) & all_cases[0].identifying_facts()) - {"topology"})
        )
        raise AnalysisError(f"These are {len(groups)} series, not one: they differ in {names}.")
    if len(groups[0]) < len(all_cases):
        raise AnalysisError("A topology is there twice; predict from one case of each.")
    return groups[0]


def cases_by_units(series: Mapping[TopologySpec, Case], target_topology: TopologySpec) -> dict[int, Case]:
    """Return the cases of a series that a target topology can be compared with: number of units → case.

    If the target is one node, the units are devices, and these are the cases of one node. Otherwise the units are
    nodes, and these are the cases with as many devices per node as the target.

    Args:
        series: Topology → case.
        target_topology: The target.
    """
    if target_topology.nodes == 1:
        return {topology.devices_per_node: case for topology, case in series.items() if topology.nodes == 1}
    return {
        topology.nodes: case
        for topology, case in series.items()
        if topology.devices_per_node == target_topology.devices_per_node
    }


def growth_per_doubling(steps: Mapping[int, float], before: int, after: int) -> float:
    """Return the growth of the natural logarithm of the step time with each doubling of the units.

    Args:
        steps: Number of units (nodes or devices) → step time, in any unit of time.
        before: The smaller number of units, a key of `steps`.
        after: The larger number of units, a key of `steps`.
    """
    return math.log(steps[after] / steps[before]) / math.log2(after / before)


def find_examples(
    reference: Iterable[Case | Result | PublishedFigure], *, over_nodes: bool
) -> Iterator[Example]:
    """Yield an example of growth for each combination of three topologies of a series.

    A series with four topologies of the kind that `over_nodes` selects gives four examples, smallest topologies first.

    Args:
        reference: The measured or published cases. They are grouped into series.
        over_nodes: True: the units are nodes, and topologies are used that have as many devices per node as the
            largest topology of their series; a series whose largest topology is one node is skipped. False: the units
            are devices, and topologies of one node are used.

    Raises:
        AnalysisError: `Case.from_source` refuses a case.
    """
    for series in group_by_series(cases(reference)):
        largest = max(series, key=lambda topology: topology.devices)
        target_topology = largest if over_nodes else TopologySpec(1, largest.devices_per_node)
        if over_nodes and largest.nodes == 1:
            continue
        steps = {units: case.step_time for units, case in cases_by_units(series, target_topology).items()}
        release = key([next(iter(series.values())).facts.get(name) for name in RELEASE])
        for before, last, target in combinations(sorted(steps), 3):
            yield Example(
                release,
                last,
                target,
                growth_per_doubling(steps, before, last),
                growth_per_doubling(steps, last, target),
            )
