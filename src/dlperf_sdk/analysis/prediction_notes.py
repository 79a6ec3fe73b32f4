"""Notes on the measurements that a prediction starts from: what its interval does not cover."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator

from dlperf_sdk.analysis.case import Case

MOST_SPREAD = 0.02
"""Standard deviation of the repeats, as a share, above which the verdict `spread` fails, too."""
MOST_GAIN = 0.06
"""Shortening of the logarithm of the step with a doubling that no published series exceeds."""


def measurement_notes(before: Case, last: Case, growth: float) -> Iterator[str]:
    """Yield a note for each doubt in the two largest measured topologies, `before` and `last`.

    `growth` is the factor by which the step time grows with each doubling.
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
