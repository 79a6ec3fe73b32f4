"""The exact test of paired ratios, and the correction for many comparisons.

`rank_test` has the test of two samples, with its interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import frozen


@frozen
class SignTest:
    """Numbers of ratios above and below 1, with the p-value of such an imbalance."""

    above: int
    """Number of ratios above 1."""
    below: int
    """Number of ratios below 1."""
    equal: int
    """Number of ratios equal to 1, which count against a difference."""
    p: float
    """Exact two-sided p-value; at most 5 % exactly where the order-statistic interval of the median excludes 1."""


def sign_test(ratios: Sequence[float]) -> SignTest:
    """Compute the exact sign test of ratios against 1. It assumes nothing about their distribution.

    Without ratios the p-value is 1.

    Source: W. J. Conover, Practical Nonparametric Statistics, 3rd edition, section 3.4.
    """
    above, below = sum(ratio > 1 for ratio in ratios), sum(ratio < 1 for ratio in ratios)
    n, majority = len(ratios), max(above, below)
    p = 2 * sum(math.comb(n, k) for k in range(n - majority + 1)) / 2**n
    return SignTest(above, below, n - above - below, min(1.0, p))


def holm_adjusted(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for their number by Holm's procedure, in the given order.

    Comparing each adjusted value with a level keeps the probability of any false alarm at that level.

    Source: S. Holm, A simple sequentially rejective multiple test procedure, Scand. J. Statist. 6 (1979), 65-70.
    """
    ordered = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted, largest = [1.0] * len(p_values), 0.0
    for place, index in enumerate(ordered):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted
