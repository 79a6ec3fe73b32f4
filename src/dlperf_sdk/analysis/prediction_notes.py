"""Notes of a prediction: why it has no point forecast, and what its interval does not cover."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from dlperf_sdk.analysis.accuracy import (
    LARGE_ERROR,
    MAX_MEDIAN_ERROR,
    MAX_NINETIETH_ERROR,
    Accuracy,
)
from dlperf_sdk.analysis.case import Case
from dlperf_sdk.spec.values import TopologySpec

MOST_SPREAD = 0.02
"""Maximum standard deviation of the repeats, as a fraction of their mean, before it is noted."""
MOST_GAIN = 0.06
"""Maximum decrease of the logarithm of the step time with a doubling, before it is noted. No published series
exceeds it."""


def measurement_notes(before: Case, last: Case, growth: float) -> Iterator[str]:
    """Yield a sentence on each doubt in the two largest measured topologies, from which a prediction starts.

    Doubts are a step that becomes implausibly shorter, a single repeat, and repeats with a large spread.

    Args:
        before: The case with the second largest topology.
        last: The case with the largest topology.
        growth: Growth of the natural logarithm of the step time per doubling between them.
    """
    if growth < -MOST_GAIN:
        yield (
            f"From {before.topology} to {last.topology} each doubling makes the step {1 - math.exp(growth):.0%} "
            "shorter, which is more than in any published series. The interval does not cover that: check that both "
            "were measured alike."
        )
    for case in (before, last):
        if len(case.repeats) == 1:
            yield f"{case.topology} was measured once: the interval does not cover the noise of the measurement."
        elif case.repeats:
            spread = statistics.stdev(case.repeats) / statistics.fmean(case.repeats)
            if spread > MOST_SPREAD:
                yield (
                    f"The repeats of {case.topology} have a standard deviation of {spread:.1%}, which the interval "
                    "does not cover: measure again on a quiet machine."
                )


def missing_forecast_note(accuracy: Accuracy | None, last: int, to_measure: int, target: TopologySpec) -> str:
    """Return a text of a few sentences: why a prediction has no point forecast, and which measurement would help.

    Args:
        accuracy: The quality of predictions from `last` to `target` on published series; None if there are too few
            such series.
        last: Largest measured number of nodes, or of devices if the target is one node.
        to_measure: The number of nodes or devices that the sentences advise to measure.
        target: The predicted topology.
    """
    if target.nodes > 1:
        depth, topology = f"{last} to {target.nodes} nodes", TopologySpec(to_measure, target.devices_per_node)
    else:
        depth, topology = (
            f"{last} to {target.devices_per_node} devices of a node",
            TopologySpec(1, to_measure),
        )
    if topology.devices < target.devices:
        advice = f"Measure {topology} as well for a point forecast."
    else:
        advice = f"Measure {topology}: no smaller topology allows a point forecast."
    if accuracy is None:
        return f"Not validated: too few published series go from {depth}, so there is no point forecast. {advice}"
    return (
        f"No point forecast from {depth}: on published series of other releases, the error is "
        f"{accuracy.median_error:.1%} in the median and {accuracy.ninetieth_error:.1%} at the 90th percentile (goal: "
        f"{MAX_MEDIAN_ERROR:.0%} and {MAX_NINETIETH_ERROR:.0%}). The interval contains {accuracy.covered:.0%} of the "
        f"published throughputs; of those with an error above {LARGE_ERROR:.0%}, {accuracy.large_covered} of "
        f"{accuracy.large}. {advice}"
    )


def one_doubling_note(doublings: float) -> str:
    """Return a sentence that says that the growth comes from published series of one doubling.

    If there is more than one doubling to the predicted topology, the sentence says how much wider the interval is.

    Args:
        doublings: Number of doublings from the largest measured to the predicted topology.
    """
    widening = f", and the interval is {doublings:.1f} times as wide" if doublings > 1 else ""
    return f"The growth is that of one doubling of published series{widening}."
