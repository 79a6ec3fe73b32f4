"""Prediction of the throughput of a larger topology from small ones of the same case.

The step on n nodes is taken as that of one node and what the network adds. What it adds has two parts, which
cannot be told apart from two topologies: one that is nearly spent once the first wire is crossed (a ring moves
2 (p - 1) / p of the gradients over every device's link, whatever p), and one that grows with every doubling
(latency, and waiting for the slowest). Which share grows is learned from published series: it is larger where the
devices of one node already wait for each other. Beside these, each doubling costs a constant share of the step.
Overlap with the computation is in the measured growth: only what is exposed is seen.

The interval comes from how far the same model misses on those series (split conformal prediction), in proportion
to what the case has already lost, and to the number of doublings. The series go to one doubling of the nodes:
beyond that nothing here has been validated, and the prediction says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product

from attrs import frozen

from dlperf_sdk.analysis.case import Case, cases, differing_facts, key
from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.strategy import NO_STRATEGY
from dlperf_sdk.spec.values import TopologySpec

CONFIDENCE = 0.9


@frozen
class Growth:
    """The parameters of the model, learned from other series; none depends on the framework or model that was run."""

    share: float
    """The share of the network's overhead that grows with each doubling, where one node has no overhead."""
    share_of_loss: float
    """The fraction of one node's overhead that is added to that share."""
    per_doubling: float
    """The share of one device's step that each doubling adds."""
    misses: float
    """The error, in units of `_uncertainty`, that nine of ten series do not exceed."""


@frozen
class Prediction:
    """The throughput of a topology that was not measured."""

    topology: TopologySpec
    throughput: float
    low: float
    high: float
    """An interval that contained nine of ten published throughputs, at one doubling."""
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
class _Stage:
    """The measured part of a series, in units of one device's step."""

    unit: float
    """Seconds of the step on one device, or on the smallest that there is."""
    before: float
    """The overhead of one unit (a node; a device has none)."""
    grown: float
    """The overhead that going from one unit to `count` units added."""
    count: int
    devices: int
    """Per unit."""

    @property
    def last(self) -> float:
        return 1 + self.before + self.grown


def predict(
    sources: Iterable[Case | Result | PublishedFigure],
    topology: str | TopologySpec,
    *,
    reference: Iterable[Case | Result | PublishedFigure],
) -> Prediction:
    """Predict the throughput of a topology from smaller ones of the same case with the same batch size per device.

    To go beyond one node, one node and at least two must be measured, with as many devices per node as the
    topology has. Within one node, one device and at least two must be. The growth is learned from `reference`, such
    as the figures of a published collection; series of which a member is among `sources` are left out of it.

    Raises:
        AnalysisError: the sources are not one series, or not enough of one; or the topology is no larger.
    """
    wanted, series = TopologySpec.parse(topology), _series(cases(sources))
    stage = _stage(series, wanted)
    growth = _growth(series, reference, over_nodes=wanted.nodes > 1)
    count = wanted.nodes if wanted.nodes > 1 else wanted.devices_per_node
    step = _step(stage, count, growth) * stage.unit
    doublings = math.log2(count / stage.count)
    off = growth.misses * _uncertainty(stage) * max(1.0, doublings)
    one = next(iter(series.values()))
    rate = one.batch_size * wanted.devices / step
    notes = []
    if doublings > 1:
        notes.append(
            f"{doublings:.1f} doublings beyond what was measured: the interval is widened in proportion, but no "
            "published series goes further than one doubling, so that nothing vouches for it."
        )
    if wanted.nodes == 1:
        notes.append(
            "The growth was learned from series over nodes, and is applied to the devices of one node."
        )
    measured = max((each for each in series if _fits(each, wanted)), key=lambda each: each.devices)
    return Prediction(
        wanted,
        rate,
        rate * math.exp(-off),
        rate * math.exp(off),
        one.unit,
        step,
        measured,
        doublings,
        tuple(notes),
    )


def learn(reference: Iterable[Case | Result | PublishedFigure], *, over_nodes: bool = True) -> Growth:
    """Fit the growth that predicts the largest topology of each series best from the others.

    `over_nodes` selects the growth over nodes, or over the devices of one node.

    The three shares minimise the mean relative error over a grid; `misses` is the quantile of what remains.

    Raises:
        AnalysisError: fewer than ten series go from one unit over a smaller number to a larger one.
    """
    known: list[tuple[_Stage, int, float]] = []
    for series in group_by_series(cases(reference)):
        within = {each: case for each, case in series.items() if over_nodes or each.nodes == 1}
        if not within:
            continue
        largest = max(within, key=lambda each: each.devices)
        truth = within.pop(largest)
        count = largest.nodes if over_nodes else largest.devices_per_node
        try:
            stage = _stage(within, largest)
        except AnalysisError:
            continue
        if over_nodes == (largest.nodes > 1):
            known.append((stage, count, truth.step_time / stage.unit))
    if len(known) < 10:
        raise AnalysisError(
            f"Only {len(known)} series of the reference go from one {'node' if over_nodes else 'device'} over two "
            "or more to a larger number; at least ten are needed to learn from."
        )
    best = min(_GRID, key=lambda growth: sum(abs(_step(s, n, growth) / t - 1) for s, n, t in known))
    off = sorted(abs(math.log(_step(s, n, best) / t)) / _uncertainty(s) for s, n, t in known)
    # Split conformal prediction: the ⌈(n + 1) × confidence⌉-th smallest.
    at = min(len(off), math.ceil((len(off) + 1) * CONFIDENCE)) - 1
    return Growth(best.share, best.share_of_loss, best.per_doubling, off[at])


_GRID = tuple(
    Growth(share / 20, of_loss / 10, each / 200, 0.0)
    for share, of_loss, each in product(range(7), range(0, 11), range(6))
)


def _growth(
    series: Mapping[TopologySpec, Case],
    reference: Iterable[Case | Result | PublishedFigure],
    *,
    over_nodes: bool,
) -> Growth:
    """Learn from the series of the reference that share no member with this one."""
    own = {_identity(case) for case in series.values()}
    others = [
        case
        for other in group_by_series(cases(reference))
        if not own & {_identity(case) for case in other.values()}
        for case in other.values()
    ]
    return learn(others, over_nodes=over_nodes)


def _identity(case: Case) -> tuple[str, float]:
    return case.name, case.throughput


def _step(stage: _Stage, count: int, growth: Growth) -> float:
    """Return the step time on so many units, in units of one device's step."""
    share = min(1.0, growth.share + growth.share_of_loss * min(stage.before, 1.0))

    def ring(units: int) -> float:
        return 1 - 1 / (units * stage.devices)

    spent = ring(count) / ring(stage.count) - 1
    grows = math.log2(count) / math.log2(stage.count) - 1
    added = max(stage.grown, 0.0) * ((1 - share) * spent + share * grows)
    return stage.last + added + growth.per_doubling * math.log2(count / stage.count)


def _uncertainty(stage: _Stage) -> float:
    """Return 1 %, plus a tenth of the efficiency that the largest measured topology has lost."""
    return 0.01 + 0.1 * max(0.0, 1 - 1 / stage.last)


def _fits(each: TopologySpec, wanted: TopologySpec) -> bool:
    if wanted.nodes == 1:
        return each.nodes == 1
    return each.devices_per_node == wanted.devices_per_node


def _stage(series: Mapping[TopologySpec, Case], wanted: TopologySpec) -> _Stage:
    fitting = {each: case.step_time for each, case in series.items() if _fits(each, wanted)}
    over_nodes = wanted.nodes > 1
    counts = {(each.nodes if over_nodes else each.devices_per_node): step for each, step in fitting.items()}
    if 1 not in counts or len(counts) < 2:
        need = (
            f"1n{wanted.devices_per_node}d and at least 2n{wanted.devices_per_node}d"
            if over_nodes
            else "1n1d and at least 1n2d"
        )
        raise AnalysisError(
            f"To predict {wanted}, {need} must be measured; there is {', '.join(map(str, sorted(series)))}."
        )
    largest = max(counts)
    target = wanted.nodes if over_nodes else wanted.devices_per_node
    if target <= largest:
        raise AnalysisError(
            f"{wanted} is not larger than what was measured; this predicts larger topologies."
        )
    alone = next((case.step_time for each, case in series.items() if each.devices == 1), counts[1])
    return _Stage(
        unit=alone,
        before=counts[1] / alone - 1,
        grown=(counts[largest] - counts[1]) / alone,
        count=largest,
        devices=wanted.devices_per_node if over_nodes else 1,
    )


def _series(many: Sequence[Case]) -> dict[TopologySpec, Case]:
    """Return the cases of one series by topology.

    Raises:
        AnalysisError: they are several, or one topology is there twice.
    """
    if not many:
        raise AnalysisError("There is nothing to predict from.")
    found = group_by_series(many)
    if len(found) > 1:
        names = ", ".join(sorted((differing_facts(many) & many[0].holds()) - {"topology"}))
        raise AnalysisError(f"These are {len(found)} series, not one: they differ in {names}.")
    if len(found[0]) < len(many):
        raise AnalysisError("A topology is there twice; predict from one case of each.")
    return found[0]


def group_by_series(many: Iterable[Case]) -> list[dict[TopologySpec, Case]]:
    """Group cases that differ in their topology only; a case without a strategy belongs to every strategy."""
    groups: dict[tuple[str, str], dict[TopologySpec, Case]] = {}
    for case in many:
        held = sorted(case.holds() - {"topology", "strategy"})
        at = key({name: case.facts[name] for name in held})
        groups.setdefault((at, str(case.facts.get("strategy", NO_STRATEGY))), {})[case.topology] = case
    for (at, strategy), alone in list(groups.items()):
        others = [group for (same, other), group in groups.items() if same == at and other != strategy]
        if strategy == NO_STRATEGY and others:
            for group in others:
                group.update({each: case for each, case in alone.items() if each not in group})
            del groups[at, strategy]
    return list(groups.values())
