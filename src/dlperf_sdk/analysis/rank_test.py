"""Ratios of two samples of few repeats: the Hodges-Lehmann estimate, its exact test, and the interval that inverts it.

A repeat is one value: its steps are no independent observations, since what slows one down slows down the next. The
only assumption is that repeats are exchangeable. Test and interval read the same ratios of all pairs of repeats and the
same distribution, so the two-sided p-value is at most 5 % exactly where the 95 % interval excludes the tested ratio.

Source: M. Hollander, D. A. Wolfe and E. Chicken, Nonparametric Statistical Methods, 3rd edition, sections 4.1 to 4.3,
on logarithms: of ratios instead of differences.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist, variance
from typing import Literal

from attrs import frozen

from dlperf_sdk.worker.estimate import median

Alternative = Literal["less", "greater", "two-sided"]

LEVEL = 0.05
"""Two-sided level of tests, and 1 less the confidence of intervals, unless another is given."""


@frozen
class Shift:
    """The ratio of two samples' throughputs."""

    ratio: float
    """The Hodges-Lehmann estimate: the median of the ratios of all pairs."""
    low: float | None
    high: float | None
    """The interval of the ratio; None where there are too few repeats for its confidence."""


def mann_whitney_p(
    a: Sequence[float], b: Sequence[float], alternative: Alternative = "two-sided", ratio: float = 1.0
) -> float:
    """Return the exact p-value of the rank-sum test of the hypothesis that a is `ratio` times b.

    `less` tests whether it is less than that. Pairs of equal values count against a difference, which keeps the level
    and makes the test agree with the interval of `hodges_lehmann_shift`.
    """
    ratios = _pair_ratios(a, b)
    probabilities = _pair_count_distribution(*sorted((len(a), len(b))))
    not_greater, not_less = bisect_right(ratios, ratio), len(ratios) - bisect_left(ratios, ratio)
    if alternative == "less":
        return probabilities[not_less]
    if alternative == "greater":
        return probabilities[not_greater]
    return min(1.0, 2 * probabilities[min(not_greater, not_less)])


def smallest_p(a: int, b: int, alternative: Alternative = "two-sided") -> float:
    """Return the smallest p-value that `mann_whitney_p` can give for samples of these sizes.

    With three values on each side and two sides it is 0.1.
    """
    return min(1.0, (2 if alternative == "two-sided" else 1) / math.comb(a + b, a))


def hodges_lehmann_shift(a: Sequence[float], b: Sequence[float], level: float = LEVEL) -> Shift:
    """Estimate the ratio of a to b; its interval holds what the two-sided test at `level` does not reject."""
    ratios = _pair_ratios(a, b)
    probabilities = _pair_count_distribution(*sorted((len(a), len(b))))
    # The number of pairs, from one side, that the test still rejects; so many are cut off at each end.
    cut = bisect_right(probabilities, level / 2)
    if cut == 0:
        return Shift(median(ratios), None, None)
    return Shift(median(ratios), ratios[cut - 1], ratios[-cut])


def repeats_to_reach(level: float) -> int:
    """Return the repeats that each side needs so that the smallest one-sided p-value is at most `level`."""
    count = 1
    while smallest_p(count, count, "less") > level:
        count += 1
    return count


def repeats_to_detect(
    a: Sequence[float], b: Sequence[float], effect: float, level: float, power: float = 0.8
) -> int | None:
    """Estimate the repeats per side with which the one-sided test at `level` tells `effect` from no effect.

    The noise is that within the two samples; None where neither has two values, or the effect is 0. An estimate from
    few repeats, for planning only.

    Source: the normal-theory size of two equal samples, over the rank-sum test's asymptotic relative efficiency of
    3 / π (Hollander, Wolfe and Chicken, section 4.5).
    """
    samples = [[math.log(value) for value in sample] for sample in (a, b) if len(sample) > 1]
    if not samples or effect <= 0:
        return None
    freedom = sum(len(sample) - 1 for sample in samples)
    noise = sum((len(sample) - 1) * variance(sample) for sample in samples) / freedom
    normal = NormalDist()
    deviates = normal.inv_cdf(1 - level) + normal.inv_cdf(power)
    count = math.ceil(2 * noise * (deviates / math.log1p(-effect)) ** 2 * math.pi / 3)
    return max(count, repeats_to_reach(level))


def _pair_ratios(a: Sequence[float], b: Sequence[float]) -> list[float]:
    return sorted(x / y for x in a for y in b)


@lru_cache(maxsize=64)
def _pair_count_distribution(a: int, b: int) -> tuple[float, ...]:
    """Return P(U <= u) for u = 0 … a·b, where U counts the pairs in which the first sample's value is larger.

    The numbers of labellings with U = u are the coefficients of the Gaussian binomial (a + b over a).
    """
    ways = [1] + [0] * (a * b)
    for i in range(1, a + 1):
        for u in range(a * b, b + i - 1, -1):
            ways[u] -= ways[u - b - i]
        for u in range(i, a * b + 1):
            ways[u] += ways[u - i]
    total = math.comb(a + b, a)
    return tuple(count / total for count in accumulate(ways))
