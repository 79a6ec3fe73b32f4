"""Decide when enough repeats have been taken."""

from typing import Any, Dict, List, NamedTuple

from dlperf_sdk.worker import estimate


class Decision(NamedTuple):
    """Decision to stop or to go on, with its reason."""

    rule: str
    """`fixed` number of repeats, or `adaptive`: until the median is known as closely as asked for."""
    stop: bool
    met: bool
    """False where an adaptive run used up its repeats without reaching its target."""
    detail: str


def decide(throughputs: List[float], protocol: Dict[str, Any]) -> Decision:
    """Decide by the protocol's rule whether more repeats are taken.

    The coordinator decides so after each repeat, a campaign after each attempt of a case.
    """
    taken, least, most, target = (
        len(throughputs),
        protocol["repeats"],
        protocol["max_repeats"],
        protocol["target"],
    )
    if target is None:
        return Decision("fixed", taken >= least, taken >= least, "%d of %d repeats" % (taken, least))
    if taken < least:
        return Decision(
            "adaptive", taken >= most, False, "%d repeats; at least %d are asked for" % (taken, least)
        )
    width = estimate.half_width(throughputs)
    if width is None:
        return Decision("adaptive", taken >= most, False, "%d repeats give no interval; six do" % taken)
    if width <= target:
        return Decision(
            "adaptive",
            True,
            True,
            "the median is known within ±%.2f %% after %d repeats" % (100 * width, taken),
        )
    reached = "the median is known within ±%.2f %% only, ±%.2f %% was asked for" % (100 * width, 100 * target)
    return Decision(
        "adaptive", taken >= most, False, "%s, after %d of at most %d repeats" % (reached, taken, most)
    )
