"""Outliers among a few values: the generalized extreme Studentized deviate test.

Source: B. Rosner, Percentage Points for a Generalized ESD Many-Outlier Procedure, Technometrics 25 (1983), 165-172. Two
outliers that hide each other are found, because the largest number of steps that is significant counts. The level of
Rosner's test is accurate from about 25 values on. For fewer values, it raises a false alarm in up to 11 % of samples
instead of 5 % (our simulation). So the level is divided here: one half for the first step, and the other half in equal
parts for the others. That holds the level for any number of normal values
(docs/reference/operating-characteristics.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dlperf_sdk.results.student_t import quantile

MIN_VALUES = 3
"""Minimum number of values among which an outlier can be found."""
_MOST_OUTLIERS = 50


def find_outliers(values: Sequence[float], level: float) -> tuple[int, ...]:
    """Return the indexes of the outliers in both directions, the most extreme first; empty without any.

    At most a third of the values, and at most 50, are outliers. In a normal sample without an outlier, the probability
    that any value is called one is at most about `level`. It is higher if the values have heavier tails than the
    normal distribution.

    Args:
        values: The values, in any order. Fewer than `MIN_VALUES` (3) have no outlier.
        level: The probability of a false alarm, above 0 and below 1.
    """
    remaining = list(range(len(values)))
    steps = min(len(values) // 3, _MOST_OUTLIERS)
    removed: list[int] = []
    count = 0
    for step in range(steps):
        center = math.fsum(values[index] for index in remaining) / len(remaining)
        extreme = max(remaining, key=lambda index: abs(values[index] - center))
        if _deviate(values, remaining, center, extreme) > _critical(
            len(remaining), _share(level, steps, step)
        ):
            count = step + 1
        removed.append(extreme)
        remaining.remove(extreme)
    return tuple(removed[:count])


def _share(level: float, steps: int, step: int) -> float:
    """Return the part of the level for a step, counted from 0."""
    if steps == 1:
        return level
    return level / 2 if step == 0 else level / 2 / (steps - 1)


def _deviate(values: Sequence[float], remaining: Sequence[int], center: float, extreme: int) -> float:
    squares = math.fsum((values[index] - center) ** 2 for index in remaining)
    deviation = math.sqrt(squares / (len(remaining) - 1))
    return abs(values[extreme] - center) / deviation if deviation > 0 else 0.0


def _critical(count: int, level: float) -> float:
    """Return the critical value of the deviate of the most extreme of `count` values (Rosner 1983, formula 2.5)."""
    t = quantile(1 - level / (2 * count), count - 2)
    return (count - 1) * t / math.sqrt((count - 2 + t * t) * count)
