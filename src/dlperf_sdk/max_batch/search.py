"""Search for the largest size that fits. Each next size follows from the probes so far and their peak memory."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any

from attrs import frozen

MAX_PROBES = 24
"""Number of probes after which the search stops: far more than it needs with known memory."""
_SECOND = 16
"""The size that is tried after 1."""
FINE = 32
"""The limit is found exactly below twice this size, and to within 1/32 from there: closer, chance decides what fits."""
RELIABLE_RATIO = 2
"""Largest ratio of two sizes between which a line through their peaks is trusted."""


@frozen
class Probe:
    """The outcome of one size that was tried in new processes."""

    size: int
    """The size, in units of the search."""
    fits: bool
    peak: int | None = None
    """Peak memory in bytes of the process that needed most; None if the size did not fit, or the peak is unknown."""


@frozen
class SearchResult:
    """The outcome of a search for the largest size that fits."""

    size: int | None
    """The largest size that fitted, and fitted again at the end; None if 1 did not fit."""
    probes: tuple[Probe, ...]
    exact: bool
    """False if the search stopped before it found the limit to within `resolution`.

    True also if the maximum fits, or if 1 does not fit.
    """


def resolution(size: int) -> int:
    """Return how exactly the search finds a limit near `size`: 1 below 64, else `size` / 32, rounded down."""
    return max(1, size // FINE)


def find_max_batch(probe: Callable[[int], Probe], budget: int | None, maximum: int) -> SearchResult:
    """Search for the largest size from 1 to `maximum` that fits: exactly below 64, to within 1/32 from there on.

    - Prediction: peak memory is close to linear in the batch size. A line through the peaks of two sizes that fit
      predicts the size at which the budget is reached. Usually, two probes end the search: one at the predicted
      size, and one at the next larger size. Each probe that fits improves the line.
    - Small sizes: building the model may take more memory than the first samples, so two small sizes give a wrong
      slope. Therefore, if the first predicted size does not fit, three quarters of it are tried next.
    - Without a budget, or if the predictions do not help: sizes are doubled until one does not fit. Then the interval
      is divided at its geometric mean.
    - Confirmation: near the limit, the same size may fit once and not again. Therefore the result is tried once more at
      the end, and lowered until it fits again. The size 1 is not tried again.

    The search stops after `MAX_PROBES` (24) probes, not counting the confirmation.

    Args:
        probe: Called with a size; tries it and returns the outcome. Its exceptions pass unchanged.
        budget: The bytes of memory that one process may take; None if unknown.
        maximum: The largest size to try, at least 1.

    Returns:
        The size and all probes. The size is None if 1 does not fit; `exact` is False if the search stopped before the
        limit was found.
    """
    probes: list[Probe] = []

    def fits(size: int) -> bool:
        probes.append(probe(size))
        return probes[-1].fits

    if not fits(1):
        return SearchResult(None, tuple(probes), True)
    low, high = 1, maximum + 1
    guess, missed, retreated = min(_SECOND, maximum), 0, False
    while high - low > resolution(low) and len(probes) < MAX_PROBES:
        guess = min(max(guess, low + 1), high - 1)
        if fits(guess):
            low = guess
        else:
            high = guess
        predicted = _predict_size(probes, budget)
        if predicted is None or missed >= 3:
            guess = low * 2 if high > maximum else isqrt(low * high)
        elif predicted <= low:
            # The line predicts this size as the limit, and it fits: try the next sizes, further away each time.
            guess, missed = low + resolution(low) * 4**missed, missed + 1
        elif predicted < high:
            guess = predicted
        elif high > RELIABLE_RATIO * low:
            guess, retreated = isqrt(low * high) if retreated else high * 3 // 4, True
        else:
            guess, missed = high - max(resolution(low), (high - low) // 4), missed + 1
    exact = high - low <= resolution(low) or low == maximum
    step = resolution(low)
    while low > 1 and not fits(low):
        low, step = max(low - step, 1), step * 2
    return SearchResult(low, tuple(probes), exact)


def _predict_size(probes: list[Probe], budget: int | None) -> int | None:
    """Return the size at which a line through two probes meets the budget; None if there is no such line.

    It goes through the largest size that fitted and the next that is so much smaller that chance does not tilt it.
    """
    known: list[Any] = sorted(
        {(probe.size, probe.peak) for probe in probes if probe.fits and probe.peak is not None}
    )
    if budget is None or len(known) < 2:
        return None
    larger, larger_peak = known[-1]
    size, peak = next((probe for probe in reversed(known) if probe[0] <= larger * 3 // 4), known[0])
    slope = (larger_peak - peak) / (larger - size)
    if slope <= 0:
        return None
    return int(larger + (budget - larger_peak) / slope)
