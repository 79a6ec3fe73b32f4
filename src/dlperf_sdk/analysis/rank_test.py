"""The exact rank-sum test of two samples of few repeats, and the interval and the sample sizes that belong to it.

A repeat is one value: its steps are no independent observations, since what slows one down slows down the next. The
only assumption is that repeats are exchangeable.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

from attrs import frozen

from dlperf_sdk.worker.estimate import median

Alternative = Literal["less", "two-sided"]

_CONFIDENCE = 0.95
_MIN_EFFECT = 0.05
"""By how much P(x < y) must exceed ½ before a sample size is planned for it."""


@frozen
class Shift:
    """The ratio of two samples' throughputs."""

    ratio: float
    """The Hodges-Lehmann estimate: the median of the ratios of all pairs."""
    low: float | None
    high: float | None
    """The interval that holds the ratio with at least 95 %; None where there are too few repeats."""


def mann_whitney_p(a: Sequence[float], b: Sequence[float], alternative: Alternative = "two-sided") -> float:
    """Return the exact p-value of the rank-sum test over all ways to label the pooled values.

    `less` tests whether a's values are smaller than b's. Values that are equal share the mean of their ranks, and the
    distribution is that of these shared ranks, so ties need no correction.

    Source: E. L. Lehmann, Nonparametrics: Statistical Methods Based on Ranks, sections 1.2 and 1.4.
    """
    pooled = sorted([*a, *b])
    # Twice the mean rank, which is a whole number.
    rank = {value: bisect_left(pooled, value) + bisect_right(pooled, value) + 1 for value in pooled}
    observed = sum(rank[value] for value in a)
    expected = len(a) * (len(pooled) + 1)
    sums = _rank_sums(tuple(rank[value] for value in pooled), len(a))
    if alternative == "less":
        extreme = sum(ways for total, ways in sums if total <= observed)
    else:
        extreme = sum(ways for total, ways in sums if abs(total - expected) >= abs(observed - expected))
    return extreme / math.comb(len(pooled), len(a))


def smallest_p(a: int, b: int, alternative: Alternative = "two-sided") -> float:
    """Return the smallest p-value that `mann_whitney_p` can give for samples of these sizes.

    With three values on each side and two sides it is 0.1.
    """
    return min(1.0, (1 if alternative == "less" else 2) / math.comb(a + b, a))


def hodges_lehmann_shift(a: Sequence[float], b: Sequence[float]) -> Shift:
    """Estimate the ratio of a to b, with the exact 95 % interval of the rank-sum test.

    Source: M. Hollander, D. A. Wolfe and E. Chicken, Nonparametric Statistical Methods, 3rd edition, sections 4.2
    and 4.3, on logarithms: of ratios instead of differences.
    """
    ratios = sorted(x / y for x in a for y in b)
    count = len(a) + len(b)
    sums = _rank_sums(tuple(range(2, 2 * count + 1, 2)), len(a))
    tail, k = 0.0, 0
    ways = math.comb(count, len(a))
    while tail + sums[k][1] / ways <= (1 - _CONFIDENCE) / 2:
        tail += sums[k][1] / ways
        k += 1
    if k == 0:
        return Shift(median(ratios), None, None)
    return Shift(median(ratios), ratios[k - 1], ratios[-k])


def repeats_needed(level: float) -> int:
    """Return the repeats that each side needs so that the smallest one-sided p-value is at most `level`."""
    count = 1
    while smallest_p(count, count, "less") > level:
        count += 1
    return count


def repeats_for_power(a: Sequence[float], b: Sequence[float], level: float, power: float = 0.8) -> int | None:
    """Estimate the repeats per side that give the one-sided test at `level` this power.

    The effect is that of the samples: a is smaller than b in as many pairs as here. None where that is hardly more
    than half of them, which suggests that there is no effect. An estimate from few repeats, for planning only.

    Source: G. E. Noether, Sample size determination for some common nonparametric tests, J. Amer. Statist. Assoc. 82
    (1987), 645-647, for two samples of one size.
    """
    pairs = [(x < y) + (x == y) / 2 for x in a for y in b]
    effect = sum(pairs) / len(pairs) - 0.5
    if effect < _MIN_EFFECT:
        return None
    normal = NormalDist()
    return math.ceil((normal.inv_cdf(1 - level) + normal.inv_cdf(power)) ** 2 / (6 * effect**2))


@lru_cache(maxsize=64)
def _rank_sums(ranks: tuple[int, ...], size: int) -> tuple[tuple[int, int], ...]:
    """Return each sum that `size` of the ranks can have, ascending, and the number of choices that have it."""
    choices: list[dict[int, int]] = [{0: 1}, *({} for _ in range(size))]
    for rank in ranks:
        for chosen in range(size, 0, -1):
            for total, ways in choices[chosen - 1].items():
                choices[chosen][total + rank] = choices[chosen].get(total + rank, 0) + ways
    return tuple(sorted(choices[size].items()))
