"""Measure the quality of predictions: each topology of a published series, predicted from two smaller ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations, product

from attrs import frozen

from dlperf_sdk.analysis.accuracy import Accuracy
from dlperf_sdk.analysis.case import Case, cases
from dlperf_sdk.analysis.growth import ninetieth_percentile
from dlperf_sdk.analysis.prediction import Prediction, predict
from dlperf_sdk.analysis.series import RELEASE, find_examples, group_by_series
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.spec.values import TopologySpec
from dlperf_sdk.worker.estimate import median


@frozen
class Trial:
    """One topology of a published series, predicted from two smaller ones."""

    published: Case
    """The case that is predicted, with its published throughput."""
    prediction: Prediction
    throughput_at_last_efficiency: float
    """The throughput that the topology would have at the efficiency of the larger of the two smaller ones."""
    smallest: TopologySpec
    """The smaller of the two smaller topologies."""

    @property
    def depth(self) -> str:
        """The step from the larger of the two smaller topologies to the predicted one, as text.

        Examples are `2 → 4 nodes` and `4 → 8 devices of a node`.
        """
        measured, predicted, unit = self.prediction.measured, self.prediction.topology, "nodes"
        if predicted.nodes == 1:
            return f"{measured.devices_per_node} → {predicted.devices_per_node} devices of a node"
        return f"{measured.nodes} → {predicted.nodes} {unit}"

    @property
    def error(self) -> float:
        """Relative error of the center of the prediction, a fraction; positive if the prediction is too high."""
        return self.prediction.center / self.published.throughput - 1

    @property
    def plain_error(self) -> float:
        """`throughput_at_last_efficiency` divided by the published throughput, minus 1: positive if it is too high."""
        return self.throughput_at_last_efficiency / self.published.throughput - 1

    @property
    def covered(self) -> bool:
        """True if the interval of the prediction contains the published throughput."""
        return self.prediction.low <= self.published.throughput <= self.prediction.high


@frozen
class Summary:
    """Statistics of trials. Errors are absolute values of relative errors, as fractions."""

    trials: int
    """Number of trials."""
    accuracy: Accuracy
    """Errors, and coverage of the intervals."""
    largest: float
    """The largest error."""
    plain_median: float
    """Median error if the last efficiency is taken to hold."""
    plain_ninetieth: float
    """The 90th percentile of the errors if the last efficiency is taken to hold."""
    too_high: int
    """Number of predictions above the published throughput."""

    @property
    def is_no_worse_than_plain(self) -> bool:
        """True if the median and 90th percentile of the errors are at most `plain_median` and `plain_ninetieth`."""
        accuracy = self.accuracy
        return accuracy.median_error <= self.plain_median and accuracy.ninetieth_error <= self.plain_ninetieth


def predict_topologies(figures: Iterable[PublishedFigure]) -> tuple[Trial, ...]:
    """Return a trial for each combination of three topologies of a series; empty if no series has three.

    A series is one case on several topologies. The three differ only in the number of nodes, or all of them are one
    node and differ in the number of devices. The throughput of the largest is predicted from the other two. The growth
    of the step time is learned from the series of other releases: those with another framework, framework version or
    implementation. So the only figures of its own release that a prediction uses are those of the two smaller
    topologies.
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
            trials.append(Trial(measured_case, prediction, ideal, before))
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
    """Return the statistics of `trials`.

    Raises:
        IndexError: There are no trials.
    """
    plain = sorted(abs(trial.plain_error) for trial in trials)
    return Summary(
        trials=len(trials),
        accuracy=Accuracy.from_outcomes([(trial.error, trial.covered) for trial in trials]),
        largest=max(abs(trial.error) for trial in trials),
        plain_median=median(plain),
        plain_ninetieth=ninetieth_percentile(plain),
        too_high=sum(trial.error > 0 for trial in trials),
    )


def attainable_ninetieth(figures: Iterable[PublishedFigure], last: int, target: int) -> float:
    """Return the smallest 90th percentile of errors that the model of growth can reach, however it is fitted.

    The errors, as fractions, are those of the throughputs predicted for `target` devices of a node from `last` devices
    and a smaller number. Growth is the increase of the step time's natural logarithm per doubling of the devices. The
    model is: growth from `last` to `target` = base + persistence × growth from the smaller number to `last`. A negative
    growth to `last` counts as 0. Base and persistence are chosen from a grid so that they fit the predicted figures
    themselves. A fit of the model to other figures cannot reach a smaller value.

    Args:
        figures: The published figures.
        last: Devices of the last measured topology.
        target: Devices of the predicted topology.

    Raises:
        IndexError: No series of the figures has both topologies.
    """
    examples = [
        example
        for example in find_examples(figures, over_nodes=False)
        if (example.last, example.target) == (last, target)
    ]

    def error_of(base: float, persistence: float) -> float:
        sizes = (
            math.expm1((example.actual - base - persistence * max(example.measured, 0.0)) * example.doublings)
            for example in examples
        )
        return ninetieth_percentile(map(abs, sizes))

    return min(error_of(base / 200, share / 10) for base, share in product(range(-20, 61), range(-5, 31)))
