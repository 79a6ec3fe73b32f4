"""Detect drift in the steps of repeats: Theil and Sen's slope, Mann and Kendall's test, summed over repeats.

Both look only at pairs, so a few slow steps neither feign nor hide a drift, and no distribution is assumed.
What the test does assume, independence, step times do not have: the variance is widened by their
autocorrelation.

Sources: P. K. Sen, Estimates of the regression coefficient based on Kendall's tau, JASA 63 (1968) 1379-1389;
M. G. Kendall, Rank Correlation Methods, 4th edition, chapter 4 (ties); S. Yue and C. Y. Wang, The
Mann-Kendall test modified by effective sample size, Water Resources Management 18 (2004) 201-218
(autocorrelation); D. R. Helsel and L. M. Frans, Regional Kendall test for trend, Environ. Sci. Technol. 40
(2006) 4066-4073 (the sum over repeats).
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

from attrs import frozen

from dlperf_sdk.worker.estimate import median

BLOCKS = 20
"""A series is tested as this many means of neighbouring steps: so there are few pairs, however long it is."""

_CLOSEST = 3
"""The fewest blocks that count as a level of their own: fewer are always alike."""


@frozen
class Trend:
    """Trend of a series from its start to its end."""

    drift: float
    """The slope times the length, as a fraction of the median: 0.02 is 2 % more at the end."""
    score: int
    """Rising pairs less falling ones."""
    variance: float
    """Of the score, if there were no drift."""

    @property
    def p_value(self) -> float:
        """Return the two-sided p-value of the score if there is no drift (normal approximation)."""
        return two_sided(self.score, self.variance)


def trends(series: Sequence[Sequence[float]]) -> list[Trend]:
    """The trend of each of several independent series of one kind, of at least `BLOCKS` numbers each."""
    blocks = [block_means(values, BLOCKS) for values in series]
    widened = inflation(autocorrelation(blocks), BLOCKS)
    found = []
    for means in blocks:
        total, variance = score(means)
        drift = slope(means) * BLOCKS / (median(means) or 1.0)
        found.append(Trend(drift, total, variance * widened))
    return found


def pooled(found: Sequence[Trend]) -> Trend:
    """The trend that independent series share: their median drift, and the sums of scores and variances."""
    return Trend(
        median([one.drift for one in found]),
        sum(one.score for one in found),
        math.fsum(one.variance for one in found),
    )


def block_means(values: Sequence[float], count: int) -> list[float]:
    """The means of `count` neighbourhoods of almost equal size, of at least `count` values."""
    edges = [index * len(values) // count for index in range(count + 1)]
    return [math.fsum(values[low:high]) / (high - low) for low, high in itertools.pairwise(edges)]


def slope(values: Sequence[float]) -> float:
    """Theil and Sen's slope per element: the median of the slopes of all pairs."""
    pairs = itertools.combinations(enumerate(values), 2)
    return median([(later - earlier) / (j - i) for (i, earlier), (j, later) in pairs])


def score(values: Sequence[float]) -> tuple[int, float]:
    """Kendall's score S, and its variance in random order, corrected for ties."""
    total = sum((later > earlier) - (later < earlier) for earlier, later in itertools.combinations(values, 2))
    ties = sum(_weight(size) for size in Counter(values).values())
    return total, (_weight(len(values)) - ties) / 18


def two_sided(total: int, variance: float) -> float:
    """The probability of a score at least as far from zero, by the normal distribution.

    The score is corrected by one for continuity. Where all values are equal, the probability is 1.
    """
    if variance <= 0:
        return 1.0
    return math.erfc(max(0, abs(total) - 1) / math.sqrt(2 * variance))


def autocorrelation(series: Sequence[Sequence[float]]) -> float:
    """Estimate the lag-1 autocorrelation of series of one length, without drift and level shifts: 0 to 0.95.

    A drift correlates neighbours and would hide itself. So the Theil-Sen line is subtracted from each series or, if
    that leaves less, the two levels before and after its clearest change. The autocorrelation of the residuals is
    estimated over all series together. Removing a line from n values lowers the estimate by (2 + 4 ρ) / n (M. G.
    Kendall, Biometrika 41 (1954) 403-404, by analogy); the search for the change lowers it by about 2 / n more, by
    simulation.
    """
    neighbours = squares = 0.0
    for values in series:
        rest = min(_less_line(values), _less_levels(values), key=_square)
        neighbours += math.fsum(a * b for a, b in itertools.pairwise(rest))
        squares += _square(rest)
    if squares == 0:
        return 0.0
    n = len(series[0])
    return min(max((neighbours / squares + 4 / n) / (1 - 4 / n), 0.0), 0.95)


def inflation(rho: float, n: int) -> float:
    """Return the variance of the mean of n values, relative to independent ones.

    Neighbours k apart have the correlation ρ^k.
    """
    return 1 + 2 * math.fsum((n - lag) / n * rho**lag for lag in range(1, n))


def _less_line(values: Sequence[float]) -> list[float]:
    """Return the centred residuals after subtracting the Theil-Sen line."""
    steepness = slope(values)
    return _centred([value - steepness * index for index, value in enumerate(values)])


def _less_levels(values: Sequence[float]) -> list[float]:
    """Return the residuals after subtracting the means before and after the clearest change."""
    places = range(_CLOSEST, len(values) - _CLOSEST + 1)
    return min((_centred(values[:place]) + _centred(values[place:]) for place in places), key=_square)


def _centred(values: Sequence[float]) -> list[float]:
    mean = math.fsum(values) / len(values)
    return [value - mean for value in values]


def _square(values: Sequence[float]) -> float:
    return math.fsum(value * value for value in values)


def _weight(size: int) -> int:
    return size * (size - 1) * (2 * size + 5)
