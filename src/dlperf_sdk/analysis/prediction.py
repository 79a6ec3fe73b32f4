"""Prediction of the throughput of a larger topology from smaller ones of the same case.

The step time grows by a factor with every doubling of the nodes, or of the devices of one node. The next growth
is `base` + `persistence` × the last measured growth. Both are learned from published series by least absolute
errors. Each published release is also predicted from the other releases. If the assumption of no further growth gives
better predictions of them than this model, it is used instead.

The interval comes from the errors of the same model on releases that were held out (cross-conformal prediction).
Series with the same number of units before and after are used if there are enough. Both ends are calibrated
separately, because errors are one-sided: growth that ends is bounded by zero, and growth that continues is not.
In some releases each doubling costs as much as the one before it. In most, the network costs little more once a
second node is used. Smaller topologies do not show which of these applies to a series.

Source: R. F. Barber et al., Predictive inference with the jackknife+, Annals of Statistics 49 (2021), 486-507.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from attrs import frozen

from dlperf_sdk.analysis.case import Case, cases, differing_facts, key
from dlperf_sdk.analysis.growth import MIN_EXAMPLES, Example, estimate_uncertainty, learn
from dlperf_sdk.analysis.prediction_notes import measurement_notes
from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.strategy import NO_STRATEGY
from dlperf_sdk.spec.values import TopologySpec

RELEASE = ("framework", "framework_version", "implementation")
"""Facts that identify a release. Its series resemble each other, so they are held out together."""


@frozen
class Prediction:
    """Predicted throughput of a topology that was not measured."""

    topology: TopologySpec
    throughput: float
    """Samples of all devices per second."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the 90 % interval."""
    unit: str
    step_time: float
    """Predicted seconds per step."""
    measured: TopologySpec
    """Largest topology that was measured."""
    doublings: float
    """Number of doublings from there to the predicted topology."""
    notes: tuple[str, ...]
    """Assumptions that were not measured, and doubts in the measurements, as sentences."""


def predict(
    sources: Iterable[Case | Result | PublishedFigure],
    topology: str | TopologySpec,
    *,
    reference: Iterable[Case | Result | PublishedFigure],
) -> Prediction:
    """Predict the throughput of a topology from smaller ones of the same case with the same batch size per device.

    For a topology of several nodes, two smaller numbers of nodes must be measured, with the same number of devices per
    node. For a topology of one node, two smaller numbers of devices must be measured.

    The growth is learned from the reference's series that have both the largest measured and the predicted number
    of nodes (for one node: of devices). If there are fewer than `MIN_EXAMPLES` such examples, the growth of one
    doubling is used instead, the interval is widened in proportion to the number of doublings, and a note of the
    prediction says so. The interval has the confidence `CONFIDENCE`.

    Args:
        sources: The measured cases of one series, one per topology.
        topology: The topology to predict.
        reference: Cases of other series that the growth is learned from, such as the figures of a published
            collection. Series that share a case with `sources` are left out.

    Raises:
        AnalysisError: the sources belong to several series, have too few topologies, or have a topology twice; the
            topology is not larger than those of the sources; a source has no valid throughput; or the reference has
            too few series.
        SpecError: the text of the topology is malformed.
    """
    target_topology, series = TopologySpec.parse(topology), _series(cases(sources))
    by_units = _cases_by_units(series, target_topology)
    steps = {units: case.step_time for units, case in by_units.items()}
    target = target_topology.nodes if target_topology.nodes > 1 else target_topology.devices_per_node
    _check_sufficient(series, steps, target_topology, target)
    before, last = sorted(steps)[-2:]
    measured, doublings = _growth(steps, before, last), math.log2(target / last)
    examples = _examples_without(series, reference, over_nodes=target_topology.nodes > 1)
    matching = [example for example in examples if (example.last, example.target) == (last, target)]
    notes = list(measurement_notes(by_units[before], by_units[last], measured))
    if len(matching) < MIN_EXAMPLES:
        matching = [example for example in examples if example.doublings == 1]
        notes.append(
            f"Not validated: no {MIN_EXAMPLES} published series go from {last} to {target} "
            f"{'nodes' if target_topology.nodes > 1 else 'devices'}. The growth is that of one doubling"
            + (f", and the interval is {doublings:.1f} times as wide." if doublings > 1 else ".")
        )
    model = learn(tuple(matching))
    step = steps[last] * math.exp(model.next(measured) * doublings)
    width = estimate_uncertainty(measured) * doublings
    largest = by_units[last]
    rate = largest.batch_size * target_topology.devices / step
    return Prediction(
        target_topology,
        rate,
        rate * math.exp(-model.slower * width),
        rate * math.exp(model.faster * width),
        largest.unit,
        step,
        largest.topology,
        doublings,
        tuple(notes),
    )


def find_examples(
    reference: Iterable[Case | Result | PublishedFigure], *, over_nodes: bool
) -> Iterator[Example]:
    """Yield an example for each combination of three numbers of units in a series, in ascending order.

    Args:
        reference: The cases of the series.
        over_nodes: The units. True: nodes, for the topologies that have as many devices per node as the largest
            topology of their series; series of one node are skipped. False: devices, for the topologies of one node.

    Raises:
        AnalysisError: a source has no valid throughput.
    """
    for series in group_by_series(cases(reference)):
        largest = max(series, key=lambda topology: topology.devices)
        target_topology = largest if over_nodes else TopologySpec(1, largest.devices_per_node)
        if over_nodes and largest.nodes == 1:
            continue
        steps = {units: case.step_time for units, case in _cases_by_units(series, target_topology).items()}
        release = key([next(iter(series.values())).facts.get(name) for name in RELEASE])
        for before, last, target in combinations(sorted(steps), 3):
            yield Example(release, last, target, _growth(steps, before, last), _growth(steps, last, target))


def _examples_without(
    series: Mapping[TopologySpec, Case],
    reference: Iterable[Case | Result | PublishedFigure],
    *,
    over_nodes: bool,
) -> list[Example]:
    """Return the examples of series of the reference that share no member with this one."""
    own_identities = {_identity(case) for case in series.values()}
    references = [
        case
        for other in group_by_series(cases(reference))
        if not own_identities & {_identity(case) for case in other.values()}
        for case in other.values()
    ]
    return list(find_examples(references, over_nodes=over_nodes))


def _identity(case: Case) -> tuple[str, float]:
    return case.name, case.throughput


def _growth(steps: Mapping[int, float], before: int, after: int) -> float:
    """Return the growth of the logarithm of the step with each doubling between two numbers of units."""
    return math.log(steps[after] / steps[before]) / math.log2(after / before)


def _cases_by_units(series: Mapping[TopologySpec, Case], target_topology: TopologySpec) -> dict[int, Case]:
    """Return the cases by number of nodes, or of devices where `target_topology` is one node."""
    if target_topology.nodes == 1:
        return {topology.devices_per_node: case for topology, case in series.items() if topology.nodes == 1}
    return {
        topology.nodes: case
        for topology, case in series.items()
        if topology.devices_per_node == target_topology.devices_per_node
    }


def _check_sufficient(
    series: Mapping[TopologySpec, Case],
    steps: Mapping[int, float],
    target_topology: TopologySpec,
    target: int,
) -> None:
    if steps and target <= max(steps):
        raise AnalysisError(
            f"{target_topology} is not larger than what was measured; this predicts larger topologies."
        )
    if len(steps) < 2:
        devices = target_topology.devices_per_node
        required = (
            f"two numbers of nodes with {devices} devices each, such as 1n{devices}d and 2n{devices}d,"
            if target_topology.nodes > 1
            else "two numbers of devices of one node, such as 1n1d and 1n2d,"
        )
        raise AnalysisError(
            f"To predict {target_topology}, {required} must be measured; there is "
            f"{', '.join(map(str, sorted(series)))}."
        )


def _series(all_cases: Sequence[Case]) -> dict[TopologySpec, Case]:
    """Return the cases of one series by topology.

    Raises:
        AnalysisError: they are several, or one topology is there twice.
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
