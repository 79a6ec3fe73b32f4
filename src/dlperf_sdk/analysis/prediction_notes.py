"""Notes on the measurements that a prediction starts from, about what its interval does not cover."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from dlperf_sdk.analysis.case import Case

MOST_SPREAD = 0.02
"""Maximum standard deviation of the repeats, as a fraction of their mean, before it is noted."""
MOST_GAIN = 0.06
"""Maximum decrease of the logarithm of the step time with a doubling, before it is noted. No published series
exceeds it."""


def measurement_notes(before: Case, last: Case, growth: float) -> Iterator[str]:
    """Yield a sentence on each doubt in the two largest measured topologies.

    Doubts are a step that becomes implausibly shorter, a single repeat, and repeats with a large spread.

    Args:
        before: The case with the second largest topology.
        last: The case with the largest topology.
        growth: Growth of the logarithm of the step time per doubling between them.
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
