"""The quality of predictions: the largest topology of every published series, left out and predicted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from attrs import frozen

from dlperf_published import source_data
from dlperf_sdk.analysis.case import Case, cases
from dlperf_sdk.analysis.prediction import Prediction, group_by_series, predict
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.worker.estimate import median


@frozen
class Trial:
    """One series, its largest topology predicted from the others."""

    truth: Case
    prediction: Prediction

    @property
    def error(self) -> float:
        """Relative error of the predicted throughput."""
        return self.prediction.throughput / self.truth.throughput - 1

    @property
    def covered(self) -> bool:
        """Return True if the prediction's interval contains the published throughput."""
        return self.prediction.low <= self.truth.throughput <= self.prediction.high


@frozen
class Summary:
    """The absolute errors of many trials, and the share of intervals that contain the published throughput."""

    trials: int
    median: float
    ninetieth: float
    largest: float
    covered: float


def predict_largest_topologies(figures: Iterable[PublishedFigure]) -> tuple[Trial, ...]:
    """Return a trial for each series with a single device or node, at least two, and more.

    The growth is learned from other frameworks' series only: the prediction sees neither the published throughput
    nor a similar one.
    """
    everything = cases(source_data.figures("dlperf-v1.0"))
    trials = []
    for series in group_by_series(cases(figures)):
        largest = max(series, key=lambda topology: topology.devices)
        rest = [case for topology, case in series.items() if topology != largest]
        smaller = {(case.topology.nodes, case.topology.devices_per_node) for case in rest}
        first = (1, largest.devices_per_node) if largest.nodes > 1 else (1, 1)
        if first not in smaller or len(smaller) < 2:
            continue
        truth = series[largest]
        others = [case for case in everything if case.facts["framework"] != truth.facts["framework"]]
        trials.append(Trial(truth, predict(rest, largest, reference=others)))
    return tuple(trials)


def summary(trials: Sequence[Trial]) -> Summary:
    """Summarize trials; the percentile is the smallest error that nine of ten trials do not exceed."""
    sizes = sorted(abs(trial.error) for trial in trials)
    ninetieth = sizes[math.ceil(0.9 * len(sizes)) - 1]
    covered = sum(trial.covered for trial in trials) / len(trials)
    return Summary(len(trials), median(sizes), ninetieth, sizes[-1], covered)
