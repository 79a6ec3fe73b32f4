"""Ratios from few repeats: the Hodges-Lehmann estimate, its exact test, and the interval that inverts the test.

A repeat is one value. Its steps are not independent observations, since what slows one down slows down the next.
`RankSum` compares two samples and assumes that their repeats are exchangeable. `SignedRank` compares pairs whose two
members ran one after the other in random order. It assumes nothing else: the random order makes both signs of each
difference equally probable, whatever drift or autocorrelation the machine has.

Test and interval use the same ratios and the same distribution. Therefore the two-sided p-value is at most 5 %
exactly where the 95 % interval excludes the tested ratio.

Source: M. Hollander, D. A. Wolfe and E. Chicken, Nonparametric Statistical Methods, 3rd edition, sections 3.1 to 3.3
and 4.1 to 4.3, on logarithms: of ratios instead of differences.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from statistics import NormalDist, variance
from typing import Literal

from attrs import frozen

from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.worker.estimate import median

Alternative = Literal["less", "greater", "two-sided"]

LEVEL = 0.05
"""Default two-sided level of tests; intervals have the confidence 1 - level."""


@frozen
class Shift:
    """Estimated ratio of two samples' throughputs."""

    ratio: float
    """Hodges-Lehmann estimate: the median of the ratios of all pairs."""
    low: float | None
    """Lower end of the interval, at the level of the test."""
    high: float | None
    """Upper end of the interval; both ends are None with too few units for its confidence."""


class RankTest(ABC):
    """Exact test of the ratio of a candidate's throughput to a baseline's."""

    unit: str
    """Kind of the units: `repeat`, `run` or `pair`."""
    sizes: str
    """Number of units, as text: `7 against 7 repeats`."""
    unit_count: int
    """Number of units of the smaller side."""

    @cached_property
    @abstractmethod
    def ratios(self) -> Sequence[float]:
        """The ratios whose median is the estimate, ascending."""

    @cached_property
    @abstractmethod
    def probabilities(self) -> Sequence[float]:
        """P(U <= u) at the indexes u = 0, 1, 2, …, where U is the number of ratios on one side of the true ratio."""

    def p(self, alternative: Alternative = "two-sided", ratio: float = 1.0) -> float:
        """Return the exact p-value of the hypothesis that the candidate is `ratio` times as fast as the baseline.

        Ratios that are equal to `ratio` count against a difference. This keeps the level, and makes the test agree
        with the interval of `shift`.

        Args:
            alternative: The alternative to the hypothesis. `less`: the candidate is slower than `ratio` times the
                baseline; `greater`: it is faster; `two-sided`: either.
            ratio: The tested ratio of throughputs.
        """
        not_greater, not_less = (
            bisect_right(self.ratios, ratio),
            len(self.ratios) - bisect_left(self.ratios, ratio),
        )
        if alternative == "less":
            return self.probabilities[not_less]
        if alternative == "greater":
            return self.probabilities[not_greater]
        return min(1.0, 2 * self.probabilities[min(not_greater, not_less)])

    def shift(self, level: float = LEVEL) -> Shift:
        """Estimate the ratio of the candidate's throughput to the baseline's, with an interval.

        The interval holds all ratios that the two-sided test does not reject. With too few units to reject any ratio,
        its ends are None.

        Args:
            level: Two-sided level of the test, above 0 and below 1; the interval has the confidence 1 - `level`.
        """
        # The number of ratios, from one side, that the test still rejects; so many are cut off at each end.
        cut = bisect_right(self.probabilities, level / 2)
        if cut == 0:
            return Shift(median(self.ratios), None, None)
        return Shift(median(self.ratios), self.ratios[cut - 1], self.ratios[-cut])

    @abstractmethod
    def units_to_detect(self, effect: float, level: float, power: float = 0.8, *, longer: int = 1) -> int:
        """Estimate the number of units with which the one-sided test at `level` detects a slowdown of `effect`.

        Units are the repeats or runs of a side, or pairs. The noise is that of the units measured so far. The estimate
        comes from few units and is meant for planning only. For longer units, it assumes that the noise of a unit
        is the average over its steps, which vary independently of each other.

        Source: normal-theory sizes over the tests' asymptotic relative efficiency of 3 / π (Hollander, Wolfe and
        Chicken, sections 3.11 and 4.5).

        Args:
            effect: The slowdown as a fraction, above 0 and below 1.
            level: One-sided level of the test.
            power: Probability of detection.
            longer: Length of a unit to plan for, as a multiple of the measured length; 2 halves the variance.

        Returns:
            Units per side, or pairs; never fewer than the level requires.
        """


class RankSum(RankTest):
    """Rank-sum test of two samples, on the ratios of all pairs of a candidate's and a baseline's value.

    Args:
        candidate: Throughputs of the candidate, at least one.
        baseline: Throughputs of the baseline, at least one.
        unit: Kind of the values: `repeat` or `run`.
    """

    def __init__(self, candidate: Sequence[float], baseline: Sequence[float], unit: str = "repeat") -> None:
        self.candidate, self.baseline, self.unit = candidate, baseline, unit
        self.sizes = f"{len(baseline)} against {len(candidate)} {unit}s"
        self.unit_count = min(len(baseline), len(candidate))

    @cached_property
    def ratios(self) -> Sequence[float]:
        """The ratios of all pairs of a candidate's and a baseline's value, ascending."""
        return sorted(x / y for x in self.candidate for y in self.baseline)

    @cached_property
    def probabilities(self) -> Sequence[float]:
        """P(U <= u) at the indexes u = 0, 1, 2, …, where U is the number of ratios on one side of the true ratio."""
        return _pair_count_distribution(*sorted((len(self.candidate), len(self.baseline))))

    def units_to_detect(self, effect: float, level: float, power: float = 0.8, *, longer: int = 1) -> int:
        """Estimate the number of units per side with which the test at `level` detects a slowdown of `effect`.

        Units are the repeats or runs of a side. The test is one-sided. With a single unit on each side there is no
        noise to estimate: the result is the number that the level requires.

        Args:
            effect: The slowdown as a fraction, above 0 and below 1.
            level: One-sided level of the test, above 0.
            power: Probability of detection.
            longer: Length of a unit to plan for, as a multiple of the measured length; 2 halves the variance.

        Returns:
            Units per side; never fewer than the level requires.
        """
        samples = [
            [math.log(value) for value in sample]
            for sample in (self.candidate, self.baseline)
            if len(sample) > 1
        ]
        if not samples:
            return repeats_to_reach(level)
        freedom = sum(len(sample) - 1 for sample in samples)
        noise = sum((len(sample) - 1) * variance(sample) for sample in samples) / freedom
        return max(math.ceil(_planned(2 * noise / longer, effect, level, power)), repeats_to_reach(level))


class SignedRank(RankTest):
    """Signed-rank test of the ratios of pairs, on the geometric means of every two of them (Walsh averages).

    Args:
        ratios: For each pair, the candidate's throughput divided by the baseline's; at least one.
    """

    unit = "pair"

    def __init__(self, ratios: Sequence[float]) -> None:
        self.of_pairs, self.unit_count = ratios, len(ratios)
        self.sizes = "1 pair" if len(ratios) == 1 else f"{len(ratios)} pairs"

    @cached_property
    def ratios(self) -> Sequence[float]:
        """The geometric means of all pairs of ratios, including each ratio with itself, in ascending order."""
        return sorted(
            x if i == j else math.sqrt(x) * math.sqrt(y)
            for i, x in enumerate(self.of_pairs)
            for j, y in enumerate(self.of_pairs[: i + 1])
        )

    @cached_property
    def probabilities(self) -> Sequence[float]:
        """P(T <= t) at the indexes t = 0, 1, 2, …, where T is the sum of the ranks of one sign."""
        return _rank_total_distribution(len(self.of_pairs))

    def units_to_detect(self, effect: float, level: float, power: float = 0.8, *, longer: int = 1) -> int:
        """Estimate the number of pairs with which the one-sided test at `level` detects a slowdown of `effect`.

        With a single pair there is no noise to estimate: the result is the number that the level requires.

        Args:
            effect: The slowdown as a fraction, above 0 and below 1.
            level: One-sided level of the test, above 0.
            power: Probability of detection.
            longer: Length of a repeat to plan for, as a multiple of the measured length; 2 halves the variance.

        Returns:
            Pairs; never fewer than the level requires.
        """
        minimum = pairs_to_reach(level)
        if self.unit_count < 2:
            return minimum
        noise = variance(math.log(ratio) for ratio in self.of_pairs)
        # A sample of unknown variance needs half the squared deviate more (Guenther, The American Statistician 35,
        # 1981, 243-244).
        unknown = NormalDist().inv_cdf(1 - level) ** 2 / 2
        return max(math.ceil(_planned(noise / longer, effect, level, power) + unknown), minimum)


def mann_whitney_p(
    a: Sequence[float], b: Sequence[float], alternative: Alternative = "two-sided", ratio: float = 1.0
) -> float:
    """Return the exact p-value of the rank-sum test of the hypothesis that `a` is `ratio` times `b`.

    If a sample is empty, the result is 1.

    Args:
        a: The first sample.
        b: The second sample.
        alternative: The alternative to the hypothesis. `less`: `a` is smaller than `ratio` times `b`; `greater`: it is
            larger; `two-sided`: either.
        ratio: The tested ratio.
    """
    return RankSum(a, b).p(alternative, ratio)


def hodges_lehmann_shift(a: Sequence[float], b: Sequence[float], level: float = LEVEL) -> Shift:
    """Estimate the ratio of `a` to `b`, two samples of positive values.

    The interval holds all ratios that the two-sided rank-sum test at `level` does not reject; its ends are None if the
    samples are too small to reject any.

    Raises:
        IndexError: A sample is empty.
    """
    return RankSum(a, b).shift(level)


def smallest_p(a: int, b: int, alternative: Alternative = "two-sided") -> float:
    """Return the smallest p-value that `mann_whitney_p` can give for samples of `a` and `b` values.

    For two samples of three values, the smallest two-sided p-value is 0.1.
    """
    return min(1.0, (2 if alternative == "two-sided" else 1) / math.comb(a + b, a))


def repeats_to_reach(level: float) -> int:
    """Return the least number of repeats per side with which the rank test can reach a one-sided p-value of `level`.

    Raises:
        AnalysisError: The level is not above 0, so that no number of repeats reaches it.
    """
    _check_level(level)
    count = 1
    while smallest_p(count, count, "less") > level:
        count += 1
    return count


def pairs_to_reach(level: float) -> int:
    """Return the least number of pairs with which the signed-rank test can reach a one-sided p-value of `level`.

    Raises:
        AnalysisError: The level is not above 0, so that no number of pairs reaches it.
    """
    _check_level(level)
    count = 1
    while 0.5**count > level:
        count += 1
    return count


def _check_level(level: float) -> None:
    if not level > 0:  # true for NaN
        raise AnalysisError(f"The level is {level}; it must be above 0.")


def _planned(noise: float, effect: float, level: float, power: float) -> float:
    """Return the size at which a mean of the variance `noise` tells the effect from none."""
    normal = NormalDist()
    deviates = normal.inv_cdf(1 - level) + normal.inv_cdf(power)
    return noise * (deviates / math.log1p(-effect)) ** 2 * math.pi / 3


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


@lru_cache(maxsize=64)
def _rank_total_distribution(n: int) -> tuple[float, ...]:
    """Return P(T <= t) for t = 0 … n·(n + 1)/2, where T is the total of the ranks of the positive differences.

    The numbers of signs with T = t are those of subsets of the ranks 1 … n with this total.
    """
    ways = [1] + [0] * (n * (n + 1) // 2)
    for rank in range(1, n + 1):
        for total in range(len(ways) - 1, rank - 1, -1):
            ways[total] += ways[total - rank]
    return tuple(count / 2**n for count in accumulate(ways))
