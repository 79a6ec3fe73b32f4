"""The quality of predictions: each topology of every published series, predicted from two smaller ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations, product

from attrs import frozen

from dlperf_sdk.analysis.case import Case, cases
from dlperf_sdk.analysis.prediction import RELEASE, Prediction, find_examples, group_by_series, predict
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.spec.values import TopologySpec
from dlperf_sdk.worker.estimate import median


@frozen
class Trial:
    """One topology of a series, predicted from two smaller ones."""

    published: Case
    prediction: Prediction
    last_efficiency: float
    """The throughput if the efficiency of the larger of the two held."""

    @property
    def depth(self) -> str:
        """The largest number of units that was used, and the predicted one: `2 → 4 nodes`."""
        measured, predicted, unit = self.prediction.measured, self.prediction.topology, "nodes"
        if predicted.nodes == 1:
            return f"{measured.devices_per_node} → {predicted.devices_per_node} devices of a node"
        return f"{measured.nodes} → {predicted.nodes} {unit}"

    @property
    def error(self) -> float:
        """Relative error of the predicted throughput."""
        return self.prediction.throughput / self.published.throughput - 1

    @property
    def plain_error(self) -> float:
        """Relative error of the prediction that the last measured efficiency holds for all topologies."""
        return self.last_efficiency / self.published.throughput - 1

    @property
    def covered(self) -> bool:
        """Return True if the prediction's interval contains the published throughput."""
        return self.prediction.low <= self.published.throughput <= self.prediction.high


@frozen
class Summary:
    """The absolute errors of many trials, and the share of intervals that contain the published throughput."""

    trials: int
    median: float
    ninetieth: float
    largest: float
    plain_median: float
    plain_ninetieth: float
    """Of "the last efficiency holds"."""
    too_high: int
    """Predictions above the published throughput."""
    covered: float


def predict_topologies(figures: Iterable[PublishedFigure]) -> tuple[Trial, ...]:
    """Return a trial for each three topologies of a series of figures that differ in nodes, or in devices of one node.

    The growth is learned from the series of other releases only: the prediction sees neither the published throughput
    nor one of the same release.
    """
    all_cases = cases(figures)
    references = {
        release: [case for case in all_cases if _release(case) != release]
        for release in {_release(case) for case in all_cases}
    }
    trials = []
    for series in group_by_series(all_cases):
        reference = references[_release(next(iter(series.values())))]
        for before, last, target in _triples(series):
            measured_case = series[target]
            prediction = predict([series[before], series[last]], target, reference=reference)
            ideal = series[last].throughput * target.devices / last.devices
            trials.append(Trial(measured_case, prediction, ideal))
    return tuple(trials)


def _release(case: Case) -> tuple[str, ...]:
    return tuple(str(case.facts.get(name)) for name in RELEASE)


def _triples(series: Iterable[TopologySpec]) -> Iterable[tuple[TopologySpec, TopologySpec, TopologySpec]]:
    """Yield what a target can be predicted from: two smaller topologies, the larger of which is the last before it.

    Nodes go together with the most devices per node that there are.
    """
    node_size = max(topology.devices_per_node for topology in series)
    by_nodes = sorted(
        (topology for topology in series if topology.devices_per_node == node_size), key=lambda t: t.nodes
    )
    by_devices = sorted((topology for topology in series if topology.nodes == 1), key=lambda t: t.devices)
    for line in (by_nodes, by_devices):
        yield from combinations(line, 3)


def summary(trials: Sequence[Trial]) -> Summary:
    """Summarize trials; the percentile is the smallest error that nine of ten trials do not exceed."""
    sizes = sorted(abs(trial.error) for trial in trials)
    plain = sorted(abs(trial.plain_error) for trial in trials)
    ninetieth = math.ceil(0.9 * len(sizes)) - 1
    return Summary(
        trials=len(trials),
        median=median(sizes),
        ninetieth=sizes[ninetieth],
        largest=sizes[-1],
        plain_median=median(plain),
        plain_ninetieth=plain[ninetieth],
        too_high=sum(trial.error > 0 for trial in trials),
        covered=sum(trial.covered for trial in trials) / len(trials),
    )


def attainable_ninetieth(figures: Iterable[PublishedFigure], last: int, target: int) -> float:
    """Return the 90th percentile of the relative errors of the best parameters chosen with all trials in view.

    No fit that has not seen the trials can be better: it is a bound of the model's form, growth = base + persistence ×
    last growth, from `last` to `target` devices of a node.
    """
    examples = [
        example
        for example in find_examples(figures, over_nodes=False)
        if (example.last, example.target) == (last, target)
    ]
    ninetieth = math.ceil(0.9 * len(examples)) - 1

    def error_of(base: float, persistence: float) -> float:
        sizes = (
            math.expm1((example.actual - base - persistence * max(example.measured, 0.0)) * example.doublings)
            for example in examples
        )
        return sorted(map(abs, sizes))[ninetieth]

    return min(error_of(base / 200, share / 10) for base, share in product(range(-20, 61), range(-5, 31)))
