"""Prediction of the throughput of a larger topology from smaller ones of the same case.

The step grows by a factor with every doubling of the nodes, or of the devices of one node. The next growth is taken as
`base` + `persistence` × the last measured growth, both learned from published series by least absolute errors. Where
that does not predict releases that were held out at least as well as "the last efficiency holds" (no further growth),
the latter is used: it is never worse than that.

The interval comes from how far the same model misses on releases that were held out (cross-conformal prediction, from
series with the same number of units before and after where there are enough). Both ends are calibrated apart, because
errors are one-sided: growth that ends is bounded by zero, and growth that goes on is not. In some releases each
doubling costs as much as the one before it; in most, the network costs little more once the first wire is crossed; and
nothing that was measured before tells which.

Source: R. F. Barber et al., Predictive inference with the jackknife+, Annals of Statistics 49 (2021), 486-507.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, product

from attrs import frozen

from dlperf_sdk.analysis.case import Case, cases, differing_facts, key
from dlperf_sdk.analysis.prediction_notes import measurement_notes
from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.strategy import NO_STRATEGY
from dlperf_sdk.spec.values import TopologySpec
from dlperf_sdk.worker.estimate import median

CONFIDENCE = 0.9
MIN_EXAMPLES = 19
"""Examples that determine a bound that one of twenty exceeds."""
RELEASE = ("framework", "framework_version", "implementation")
"""Facts that make a release: its series resemble each other, so they are held out together."""


@frozen
class Growth:
    """A model of the growth of the step with each doubling, learned from other series."""

    base: float
    """Growth of the logarithm of the step with each doubling, whatever was measured before."""
    persistence: float
    """Share of the last measured growth that goes on. Both are 0 where the last efficiency holds."""
    faster: float
    slower: float
    """The errors that one of twenty exceeds to either side, in units of `_uncertainty`."""
    examples: int
    """Examples that it was learned from."""

    def next(self, measured: float) -> float:
        """Return the growth with the next doubling after the growth that was measured."""
        return self.base + self.persistence * max(measured, 0.0)


@frozen
class Prediction:
    """The throughput of a topology that was not measured."""

    topology: TopologySpec
    throughput: float
    low: float
    high: float
    """The 90 % interval."""
    unit: str
    step_time: float
    """Seconds."""
    measured: TopologySpec
    """The largest topology that was measured."""
    doublings: float
    """Doublings from there to the predicted topology."""
    notes: tuple[str, ...]
    """Assumptions that were not measured."""


@frozen
class Example:
    """Three topologies of one series, by their numbers of units: nodes, or devices of one node."""

    release: str
    last: int
    target: int
    measured: float
    """Growth per doubling up to `last`."""
    actual: float
    """Growth per doubling from `last` to `target`."""

    @property
    def doublings(self) -> float:
        """Doublings from `last` to `target`."""
        return math.log2(self.target / self.last)


def predict(
    sources: Iterable[Case | Result | PublishedFigure],
    topology: str | TopologySpec,
    *,
    reference: Iterable[Case | Result | PublishedFigure],
) -> Prediction:
    """Predict the throughput of a topology from smaller ones of the same case with the same batch size per device.

    To go beyond one node, two numbers of nodes must be measured, with as many devices per node as the topology has.
    Within one node, two numbers of devices must be. The growth is learned from `reference`, such as the figures of a
    published collection; series of which a member is among `sources` are left out of it.

    Raises:
        AnalysisError: the sources are not one series, or not enough of one; or the topology is no larger.
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
    width = _uncertainty(measured) * doublings
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


@lru_cache(maxsize=32)
def learn(examples: tuple[Example, ...]) -> Growth:
    """Fit the growth by least absolute errors, and its interval by the errors on releases that are held out.

    Raises:
        AnalysisError: there are too few examples for the interval.
    """
    if len(examples) < MIN_EXAMPLES:
        raise AnalysisError(
            f"Only {len(examples)} series of the reference go over two numbers of nodes, or of devices, to a larger "
            f"one; at least {MIN_EXAMPLES} are needed to learn from."
        )
    fits = {
        release: _fit([example for example in examples if example.release != release])
        for release in {example.release for example in examples}
    }
    held_out = [(example, _error(example, *fits[example.release])) for example in examples]
    plain = [(example, example.actual) for example in examples]
    fit = _fit(examples)
    if not _is_no_worse(held_out, plain):
        fit, held_out = (0.0, 0.0), plain
    scaled = sorted(error / _uncertainty(example.measured) for example, error in held_out)
    # Of each side, the ⌈(n + 1) × 95 %⌉-th smallest.
    rank = min(len(scaled), math.ceil((len(scaled) + 1) * (1 + CONFIDENCE) / 2))
    return Growth(*fit, max(0.0, -scaled[-rank]), max(0.0, scaled[rank - 1]), len(examples))


def find_examples(
    reference: Iterable[Case | Result | PublishedFigure], *, over_nodes: bool
) -> Iterator[Example]:
    """Yield an example for each three numbers of devices of a series, smallest first: from two, the third is known.

    They have as many devices per node as the largest of the series, or one node.

    Args:
        reference: The cases of the series.
        over_nodes: Whether series grow over nodes; else over the devices of one node.

    Raises:
        AnalysisError: a source has no throughput.
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


_GRID = tuple((base / 200, share / 10) for base, share in product(range(13), range(11)))


def _fit(examples: Sequence[Example]) -> tuple[float, float]:
    """Return the base and the persistence with the least absolute errors."""
    points = [(max(e.measured, 0.0), e.actual, e.doublings) for e in examples]
    return min(_GRID, key=lambda fit: sum(abs(fit[0] + fit[1] * x - y) * n for x, y, n in points))


def _error(example: Example, base: float, persistence: float) -> float:
    """Return the actual growth less the predicted one."""
    return example.actual - base - persistence * max(example.measured, 0.0)


def _is_no_worse(
    errors: Sequence[tuple[Example, float]], other_errors: Sequence[tuple[Example, float]]
) -> bool:
    """Return True if errors are no larger in the median, and at the 90th percentile."""
    ordered, other_ordered = (
        sorted(abs(error) * example.doublings for example, error in e) for e in (errors, other_errors)
    )
    ninetieth = math.ceil(0.9 * len(ordered)) - 1
    return median(ordered) <= median(other_ordered) and ordered[ninetieth] <= other_ordered[ninetieth]


def _uncertainty(measured: float) -> float:
    """Return 1 %, plus 0.3 of the measured growth: what grew may go on, and may end."""
    return 0.01 + 0.3 * max(measured, 0.0)


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
        names = ", ".join(sorted((differing_facts(all_cases) & all_cases[0].holds()) - {"topology"}))
        raise AnalysisError(f"These are {len(groups)} series, not one: they differ in {names}.")
    if len(groups[0]) < len(all_cases):
        raise AnalysisError("A topology is there twice; predict from one case of each.")
    return groups[0]


def group_by_series(ungrouped: Iterable[Case]) -> list[dict[TopologySpec, Case]]:
    """Return the groups of cases that differ in their topology only, each by topology.

    A case without a strategy belongs to the series of every strategy.
    """
    groups: dict[tuple[str, str], dict[TopologySpec, Case]] = {}
    for case in ungrouped:
        fixed = sorted(case.holds() - {"topology", "strategy"})
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
