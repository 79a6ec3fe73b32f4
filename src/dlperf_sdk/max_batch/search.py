"""Search for the largest size that fits; pure: each next size follows from the probes so far and their memory."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any

from attrs import frozen

MAX_PROBES = 24
"""Probes after which the best so far is taken: far more than the memory model needs."""
_SECOND = 16
"""The size that is tried after 1."""
FINE = 32
"""The limit is found exactly up to this size, and to within 1/32 beyond it: closer, chance decides what fits."""
RELIABLE_RATIO = 2
"""Sizes that are further apart than by this factor: what a line says from one to the other is a guess."""


@frozen
class Probe:
    """One try in new processes."""

    size: int
    fits: bool
    peak: int | None = None
    """Bytes at the peak of the process that needed most, where it fitted and somebody could tell."""


@frozen
class SearchResult:
    """The end of a search."""

    size: int | None
    """The largest that fitted; None where not even the smallest did."""
    probes: tuple[Probe, ...]
    exact: bool
    """True if the next larger size is known not to fit, within the resolution."""


def resolution(size: int) -> int:
    """Return the resolution of the search near a size."""
    return max(1, size // FINE)


def find_max_batch(probe: Callable[[int], Probe], budget: int | None, maximum: int) -> SearchResult:
    """Return the largest size from 1 to `maximum` for which `probe` fits.

    Peak memory is close to linear in the batch size: two sizes give a line, the line and the `budget` (bytes for one
    process) a guess, and a probe at the guess and one beside it usually settle it. Every probe that fits mends the
    line. A small size says little about the slope, since building the model may take more than the first samples do:
    where the first guess is too large, three quarters of it are tried next, from where the line is good. Where there
    is no budget, or the line does not help, sizes are doubled and the interval halved by its ratio. At the edge the
    same size may fit once and not again, so what is returned has fitted in the last probe of all, after it had fitted
    before or a larger size had not.
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
            # The model says that this is the limit, and it fits: look just beyond, and further each time.
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
