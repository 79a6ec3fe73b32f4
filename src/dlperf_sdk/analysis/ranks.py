"""Two samples of few repeats: by how much one is faster, with an exact interval, and how likely that is chance.

A repeat is one value: its steps are no independent observations, since what slows one down slows down the next. So
all that is assumed is that repeats are exchangeable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

from attrs import frozen

from dlperf_sdk.worker.estimate import median

_HARDLY = 0.05


@frozen
class Shift:
    """The ratio of two samples' throughputs."""

    ratio: float
    """Hodges and Lehmann's: the median of the ratios of all pairs."""
    low: float | None
    high: float | None
    """What holds the ratio with at least the confidence asked for; None where so few repeats give no interval."""


def shift(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Shift:
    """How much faster a is than b: the interval is the exact one of the rank-sum test.

    Source: M. Hollander, D. A. Wolfe and E. Chicken, Nonparametric Statistical Methods, 3rd edition, sections 4.2
    and 4.3, on logarithms: of ratios instead of differences.
    """
    ratios = sorted(x / y for x in a for y in b)
    tail, k = 0.0, 0
    counts, ways = _distribution(len(a), len(b)), math.comb(len(a) + len(b), len(a))
    while tail + counts[k] / ways <= (1 - confidence) / 2:
        tail += counts[k] / ways
        k += 1
    if k == 0:
        return Shift(median(ratios), None, None)
    return Shift(median(ratios), ratios[k - 1], ratios[-k])


def slower(a: Sequence[float], b: Sequence[float]) -> float:
    """The exact one-sided p-value that a is slower than b: how often chance alone gives ranks as low as a's.

    Equal values share their mean rank, and the distribution is that of these ranks.

    Source: E. L. Lehmann, Nonparametrics: Statistical Methods Based on Ranks, sections 1.2 and 1.4.
    """
    pooled = sorted([*a, *b])
    if len(set(pooled)) == len(pooled):
        below = sum(x > y for x in a for y in b)
        return sum(_distribution(len(a), len(b))[: below + 1]) / math.comb(len(pooled), len(a))
    observed, ways = rank_sums(a, b)
    return sum(count for total, count in ways.items() if total <= observed) / math.comb(len(pooled), len(a))


def rank_sums(a: Sequence[float], b: Sequence[float]) -> tuple[int, dict[int, int]]:
    """Twice the sum of a's ranks among all values, and of each such sum how many labellings of the values give it.

    Values that are equal share the mean of their ranks; twice, because that is whole then.
    """
    values = [*a, *b]
    ordered = sorted(values)
    first = {value: ordered.index(value) for value in set(ordered)}
    ranks = [2 * first[value] + 1 + ordered.count(value) for value in values]
    # counts[k][s]: in how many ways k of the values have ranks that add up to s.
    counts: list[dict[int, int]] = [{0: 1}, *({} for _ in a)]
    for rank in ranks:
        for size in range(len(a), 0, -1):
            for total, ways in counts[size - 1].items():
                counts[size][total + rank] = counts[size].get(total + rank, 0) + ways
    return sum(ranks[: len(a)]), counts[len(a)]


def smallest(a: int, b: int) -> float:
    """The smallest p-value that `slower` can give for samples of these sizes."""
    return 1 / math.comb(a + b, a)


def repeats_needed(level: float) -> int:
    """How many repeats each side needs so that the smallest p-value is at most `level`."""
    count = 1
    while smallest(count, count) > level:
        count += 1
    return count


def repeats_to_tell(a: Sequence[float], b: Sequence[float], level: float, power: float = 0.8) -> int | None:
    """How many repeats each side wants for `slower` to find, at `level` and with this chance, what a and b show.

    It takes a for slower than b in as many pairs as these are; None where hardly more than half are, which says that
    there may be nothing to find. An estimate from few repeats, and no more: for planning the next measurement.

    Source: G. E. Noether, Sample size determination for some common nonparametric tests, J. Amer. Statist. Assoc. 82
    (1987), 645-647, for two samples of one size.
    """
    pairs = [(x < y) + (x == y) / 2 for x in a for y in b]
    beyond = sum(pairs) / len(pairs) - 0.5
    if beyond < _HARDLY:
        return None
    normal = NormalDist()
    return math.ceil((normal.inv_cdf(1 - level) + normal.inv_cdf(power)) ** 2 / (6 * beyond**2))


def holm(values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values: comparing each with a level keeps the chance of any false alarm at that level.

    Source: S. Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6 (1979), 65-70.
    """
    ordered = sorted(range(len(values)), key=values.__getitem__)
    adjusted, largest = [1.0] * len(values), 0.0
    for place, index in enumerate(ordered):
        largest = max(largest, min(1.0, (len(values) - place) * values[index]))
        adjusted[index] = largest
    return adjusted


@cache
def _distribution(m: int, n: int) -> tuple[int, ...]:
    """How many of the arrangements of m and n values have each value of Mann and Whitney's U."""
    if m == 0 or n == 0:
        return (1,)
    found = [0] * (m * n + 1)
    # The largest value is one of the n, which m values are below, or one of the m.
    for u, ways in enumerate(_distribution(m - 1, n)):
        found[u + n] += ways
    for u, ways in enumerate(_distribution(m, n - 1)):
        found[u] += ways
    return tuple(found)
