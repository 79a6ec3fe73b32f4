"""Quantiles of Student's t distribution."""

from __future__ import annotations

import math
from functools import lru_cache


@lru_cache(maxsize=256)
def quantile(probability: float, freedom: int) -> float:
    """Return the value that Student's t exceeds with the probability 1 - `probability`; at most 1e6.

    The arguments are not checked.

    Args:
        probability: At least 0.5 and less than 1.
        freedom: Number of degrees of freedom, a positive whole number.
    """
    low, high = 0.0, 1e6
    for _ in range(80):
        middle = (low + high) / 2
        if _cumulative(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return high


def _cumulative(t: float, freedom: int) -> float:
    """Return the probability that Student's t is at most `t`.

    Source: M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.

    Args:
        t: The value.
        freedom: Number of degrees of freedom, a positive whole number.
    """
    angle = math.atan2(t, math.sqrt(freedom))
    odd = freedom % 2
    term, total = (math.cos(angle) if odd else 1.0), 0.0
    for k in range(2 + odd, freedom + 1, 2):
        total += term
        term *= math.cos(angle) ** 2 * (k - 1) / k
    inner = math.sin(angle) * total
    return 0.5 + (2 / math.pi * (angle + inner) if odd else inner) / 2
