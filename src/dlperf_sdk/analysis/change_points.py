"""Change points of a series of throughputs: the segmentation of least penalized rank cost.

The cost of a segmentation is the part of the ranks' variation that its levels do not explain, plus a penalty for each
change. The variation is in units of the ranks' variance, so that the part that is explained is the Kruskal-Wallis
statistic of the segments. The search is exact. Because of the ranks, outliers have little influence, and the
false-alarm rate is the same for every distribution of independent noise.

Sources: R. Killick, P. Fearnhead and I. A. Eckley, Optimal Detection of Changepoints With a Linear Computational Cost,
JASA 107 (2012): penalized costs and their exact search by dynamic programming. A. Lung-Yut-Fong, C. Lévy-Leduc and
O. Cappé, Homogeneity and change-point detection tests for multivariate data using rank statistics, J-SFdS 156 (2015):
the cost. The penalty is our own, from simulations (docs/reference/operating-characteristics.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, groupby

MIN_SEGMENT = 3
"""Minimum number of values of a level, so that one or two unusual runs are not reported as a change."""
MIN_VALUES = 9
"""Minimum number of different values for a change: with fewer, even two separate levels cost less as one."""


def find_change_points(values: Sequence[float], *, penalty: float | None = None) -> tuple[int, ...]:
    """Return the indexes of the values at which a new level begins, in ascending order.

    The first level, which begins at index 0, is not included; the result is empty if there is no change. Each level
    has at least `MIN_SEGMENT` (3) values. The time grows with the square of the number of values: 2,000 values take
    about a second.

    Args:
        values: The values, in the order of the series.
        penalty: Cost of a change, in units of the rank statistic; a higher cost leads to fewer changes. None: a cost
            that leads to a change in about 5 % of the series that have none.
    """
    count = len(values)
    if penalty is None:
        penalty = 3 + 1.25 * math.log(max(count, 1))
    ranks = _centered_ranks(values)
    spread = math.fsum(rank * rank for rank in ranks)
    if count < 2 * MIN_SEGMENT or spread == 0:
        return ()
    unit = (count - 1) / spread
    sums = list(accumulate(ranks, initial=0.0))
    # costs[end] is the least cost of the values before `end`, whose last segment begins at starts[end].
    costs, starts = [-penalty, *[math.inf] * count], [0] * (count + 1)
    for end in range(MIN_SEGMENT, count + 1):
        total = sums[end]
        costs[end], starts[end] = min(
            (costs[start] + penalty - unit * (total - sums[start]) ** 2 / (end - start), start)
            for start in range(end - MIN_SEGMENT + 1)
        )
    changes, end = [], count
    while starts[end] > 0:
        end = starts[end]
        changes.append(end)
    return tuple(reversed(changes))


def _centered_ranks(values: Sequence[float]) -> list[float]:
    """Return each value's rank less the mean rank; equal values share the mean of theirs."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks, below = [0.0] * len(values), 0
    for _, group in groupby(order, key=values.__getitem__):
        tied = list(group)
        for index in tied:
            ranks[index] = below + (len(tied) - 1) / 2 - (len(values) - 1) / 2
        below += len(tied)
    return ranks
