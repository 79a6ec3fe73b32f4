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
from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from dlperf_sdk.analysis.accuracy import Accuracy, validate
from dlperf_sdk.analysis.case import Case, cases
from dlperf_sdk.analysis.growth import MIN_EXAMPLES, Example, estimate_uncertainty, learn
from dlperf_sdk.analysis.prediction_notes import measurement_notes, missing_forecast_note, one_doubling_note
from dlperf_sdk.analysis.series import (
    cases_by_units,
    find_examples,
    group_by_series,
    growth_per_doubling,
    require_one_series,
)
from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.values import TopologySpec


@frozen
class Prediction:
    """Predicted throughput of a topology that was not measured."""

    topology: TopologySpec
    """The predicted topology."""
    center: float
    """Throughput that the model extrapolates. It is a forecast only if `throughput` returns it."""
    low: float
    """Lower end of the interval, in samples of all devices per second."""
    high: float
    """Upper end of the 90 % interval, in samples of all devices per second."""
    unit: str
    """Unit of the throughputs."""
    global_batch_size: int
    """Samples per step on the predicted topology."""
    measured: TopologySpec
    """Largest topology that was measured."""
    doublings: float
    """Number of doublings from there to the predicted topology."""
    accuracy: Accuracy | None
    """Quality of predictions of this depth on published series; None if there are too few of them."""
    notes: tuple[str, ...]
    """Reasons for a missing point forecast, and doubts in the measurements, as sentences."""

    @property
    def throughput(self) -> float | None:
        """Point forecast in samples of all devices per second.

        None unless predictions of the same depth on published series meet the goal of `Accuracy.meets_goal`.
        """
        return self.center if self.accuracy is not None and self.accuracy.meets_goal else None

    @property
    def step_time(self) -> float | None:
        """Predicted seconds per step; None without a point forecast."""
        return None if self.throughput is None else self.global_batch_size / self.throughput


def predict(
    sources: Iterable[Case | Result | PublishedFigure],
    topology: str | TopologySpec,
    *,
    reference: Iterable[Case | Result | PublishedFigure],
) -> Prediction:
    """Predict the throughput of a topology from smaller ones of the same case with the same batch size per device.

    For a topology of several nodes, two smaller numbers of nodes must be measured, with the same number of devices
    per node. For a topology of one node, two smaller numbers of devices must be measured.

    The growth is learned from the reference's series that have both the largest measured and the predicted number
    of nodes (for one node: of devices). If there are fewer than `MIN_EXAMPLES` such examples, the growth of one
    doubling is used instead, the interval is widened in proportion to the number of doublings, and a note of the
    prediction says so. The interval has the confidence `CONFIDENCE`.

    Args:
        sources: The measured cases of one series, one per topology.
        topology: The topology to predict.
        reference: Cases of other series that the growth is learned from, such as the figures of a published
            collection. Series that share a case with `sources` are left out.

    Returns:
        The prediction. It has a point forecast only if the method predicts these series of the reference well enough,
        each from series of other frameworks or versions (`Accuracy.meets_goal`). Otherwise a note gives the reason, and
        the topology to measure for a point forecast.

    Raises:
        AnalysisError: The sources belong to several series, have too few topologies, or have a topology twice; the
            topology is not larger than those of the sources; `Case.from_source` refuses a case; or the reference has
            too few series.
        SpecError: The text of the topology is malformed.
    """
    target_topology, series = TopologySpec.parse(topology), require_one_series(cases(sources))
    by_units = cases_by_units(series, target_topology)
    steps = {units: case.step_time for units, case in by_units.items()}
    target = target_topology.nodes if target_topology.nodes > 1 else target_topology.devices_per_node
    _check_sufficient(series, steps, target_topology, target)
    before, last = sorted(steps)[-2:]
    measured, doublings = growth_per_doubling(steps, before, last), math.log2(target / last)
    examples = _examples_without(series, reference, over_nodes=target_topology.nodes > 1)
    matching = [example for example in examples if (example.last, example.target) == (last, target)]
    accuracy = validate(tuple(matching))
    notes = list(measurement_notes(by_units[before], by_units[last], measured))
    if len(matching) < MIN_EXAMPLES:
        matching = [example for example in examples if example.doublings == 1]
        notes.insert(0, one_doubling_note(doublings))
    if accuracy is None or not accuracy.meets_goal:
        to_measure = _find_units_to_measure(examples, last, target)
        notes.insert(0, missing_forecast_note(accuracy, last, to_measure, target_topology))
    model = learn(tuple(matching))
    width = estimate_uncertainty(measured) * doublings
    largest = by_units[last]
    global_batch_size = largest.batch_size * target_topology.devices
    center = global_batch_size / (steps[last] * math.exp(model.next(measured) * doublings))
    return Prediction(
        target_topology,
        center,
        center * math.exp(-model.slower * width),
        center * math.exp(model.faster * width),
        largest.unit,
        global_batch_size,
        largest.topology,
        doublings,
        accuracy,
        tuple(notes),
    )


def _find_units_to_measure(examples: Sequence[Example], last: int, target: int) -> int:
    """Return the number of units to measure for a point forecast: the fewest that allow one, or the target.

    Args:
        examples: The examples of the reference.
        last: Number of units of the largest measured topology.
        target: Number of units to predict.
    """
    for units in sorted({example.last for example in examples if example.target == target}):
        accuracy = validate(tuple(e for e in examples if (e.last, e.target) == (units, target)))
        if units > last and accuracy is not None and accuracy.meets_goal:
            return units
    return target


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
