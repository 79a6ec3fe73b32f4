"""Decide when enough repeats have been taken."""

import math
from typing import Any, Dict, List, NamedTuple

from dlperf_sdk.worker import estimate

SMALLEST_PILOT = 6
"""Fewest repeats of an adaptive run that the others are planned from."""


class Decision(NamedTuple):
    """Decision to stop or to go on, with its reason."""

    rule: str
    """`fixed` number of repeats, or `adaptive`: as many as the first ones show to be needed."""
    stop: bool
    met: bool
    """False where an adaptive run needs more repeats than it may take."""
    detail: str


def decide(throughputs: List[float], protocol: Dict[str, Any]) -> Decision:
    """Return the decision of the protocol's rule to stop or to take more repeats.

    The coordinator asks after each repeat, a campaign after each attempt of a case.

    Args:
        throughputs: Of the repeats so far, in samples per second.
        protocol: The request's protocol.
    """
    count, minimum, maximum, target = (
        len(throughputs),
        protocol["repeats"],
        protocol["max_repeats"],
        protocol["target"],
    )
    if target is None:
        return Decision("fixed", count >= minimum, count >= minimum, "%d of %d repeats" % (count, minimum))
    first = max(minimum, SMALLEST_PILOT)
    if count < first:
        detail = "%d of at most %d repeats; the first %d plan the others" % (count, maximum, first)
        return Decision("adaptive", count >= maximum, False, detail)
    planned = planned_repeats(throughputs[:first], target)
    is_met = planned <= count and planned <= maximum
    detail = "%d repeats for ±%.2f %% were planned from the first %d" % (planned, 100 * target, first)
    if planned > maximum:
        detail += ", and at most %d are allowed" % maximum
    width = estimate.half_width(throughputs)
    if width is not None:
        detail += "; after %d the median is known within ±%.2f %%" % (count, 100 * width)
    return Decision("adaptive", is_met or count >= maximum, is_met, detail)


def planned_repeats(pilot: List[float], target: float) -> int:
    """Return the repeats, the pilot's included, whose median has a 95 % interval of about ± `target`.

    The repeats behind the pilot alone are as many as normal noise of the pilot's standard deviation needs. Their number
    depends on the pilot only: a rule that stops when the interval happens to be short makes its coverage false.

    Source: C. Stein, A two-sample test for a linear hypothesis whose power is independent of the variance, Annals of
    Mathematical Statistics 16 (1945), 243-258 (two stages); the median's standard error is √(π / 2) times the mean's.
    """
    noise = estimate.standard_deviation(pilot) / estimate.median(pilot)
    return len(pilot) + math.ceil(math.pi / 2 * (1.96 * noise / target) ** 2)
