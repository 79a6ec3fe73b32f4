"""Decide when enough repeats have been taken."""

import math
from typing import Any, Dict, List, NamedTuple

from dlperf_sdk.worker import estimate

SMALLEST_PILOT = 6
"""Minimum number of repeats of an adaptive run that the others are planned from."""


class Decision(NamedTuple):
    """The decision to stop or to continue, with its reason."""

    rule: str
    """`fixed`: a fixed number of repeats; `adaptive`: as many as the first ones show to be needed."""
    stop: bool
    """True if no further repeat is to be taken."""
    met: bool
    """True if the rule's goal is reached; False if more repeats are needed, even if no more are allowed."""
    detail: str
    """The reason, as a phrase without a full stop: the numbers of repeats that are taken, planned and allowed."""


def decide(throughputs: List[float], protocol: Dict[str, Any]) -> Decision:
    """Decide by the protocol's rule whether to stop or to take another repeat.

    Without a target, the rule is `fixed`: stop after `repeats` repeats. With a target, it is `adaptive`: the first
    `repeats` repeats, or the first `SMALLEST_PILOT` (6) if that is more, determine the number of repeats
    (`planned_repeats`); stop after that number, but at the latest after `max_repeats`.

    The coordinator calls this after each repeat, a campaign after each attempt of a case.

    Args:
        throughputs: Throughput of each repeat so far, in samples per second, in order.
        protocol: `Request.protocol`; its `repeats`, `max_repeats` and `target` are used. `target` is half the width of
            the median's 95 % interval, as a fraction of the median; None for a fixed number of repeats.

    Returns:
        The decision: its `stop` is True if no further repeat is to be taken, and its `met` is True if the rule's number
        of repeats was taken.
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
    """Return the number of repeats after which the median's 95 % interval should have the target width.

    The number includes the repeats of the pilot. The number of further repeats follows from the pilot's standard
    deviation, for normal noise. It depends on the pilot only: if a rule stopped as soon as the interval happens to be
    short, the interval's coverage would be wrong.

    Source: C. Stein, A two-sample test for a linear hypothesis whose power is independent of the variance, Annals of
    Mathematical Statistics 16 (1945), 243-258 (two stages); the median's standard error is √(π / 2) times the
    mean's.

    Args:
        pilot: Throughputs of the first repeats, at least two.
        target: Half the width of the median's 95 % interval, as a fraction of the median; above 0.
    """
    noise = estimate.standard_deviation(pilot) / estimate.median(pilot)
    return len(pilot) + math.ceil(math.pi / 2 * (1.96 * noise / target) ** 2)
