"""The estimators, in one place: the agent's stopping rule and the controller's metrics both use them."""

from bisect import bisect_right
from itertools import accumulate
from math import pi, sqrt
from typing import List, Optional, Sequence, Tuple


def throughput(samples: Sequence[int], seconds: Sequence[float]) -> float:
    """Return the throughput of one repeat in samples per second: all samples over the slowest process's window.

    It is never the mean of the processes' rates, which is biased upwards as soon as they differ.

    Args:
        samples: Samples of each process in the window.
        seconds: Seconds of each process's window, at least one; the longest is above 0.
    """
    return sum(samples) / max(seconds)


def slowest_step_times(step_times: Sequence[Sequence[float]]) -> List[float]:
    """Return the time of each step on its slowest process: a synchronous step is as slow as its slowest replica.

    Args:
        step_times: The step times of each process, in seconds; all of the same length.

    Returns:
        Seconds, in the order of the steps; empty without processes.
    """
    return [max(times) for times in zip(*step_times)]


def median(values: Sequence[float]) -> float:
    """Return the median of at least one value; of an even number of values, the mean of the middle two."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


def standard_deviation(values: Sequence[float]) -> float:
    """Estimate the standard deviation of at least two values: Gini's mean difference, times √π / 2.

    The mean difference is the average distance of all pairs. Its expectation does not depend on the number of
    values, whatever their distribution; for normal values it is 2 / √π standard deviations. One slow repeat counts
    linearly, not squared.

    Source: H. A. David, Gini's mean difference rediscovered, Biometrika 55 (1968), 573-575.
    """
    n = len(values)
    distances = sum((2 * index - n + 1) * value for index, value in enumerate(sorted(values)))
    return sqrt(pi) * distances / (n * (n - 1))


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Optional[Tuple[float, float]]:
    """Return the distribution-free confidence interval of the median, from order statistics.

    The k-th smallest and k-th largest of n values enclose the median with probability 1 - 2 P(Binomial(n, ½) < k).
    The largest k that reaches the confidence is taken.

    Source: H. A. David and H. N. Nagaraja, Order Statistics, 3rd edition, section 7.1.

    Args:
        values: The values, in any order; may be empty.
        confidence: Minimum probability that the interval contains the median, between 0 and 1.

    Returns:
        The lower and upper bound; None if no k reaches the confidence, as with fewer than six values and 95 %.
    """
    k = _rank(len(values), confidence)
    if k == 0:
        return None
    ordered = sorted(values)
    return ordered[k - 1], ordered[len(ordered) - k]


def _rank(n: int, confidence: float) -> int:
    """Return the largest k with P(Binomial(n, ½) < k) <= (1 - confidence) / 2."""
    # Probabilities of n // 2 and less, as multiples of that of n // 2: for n above 1074, 0.5**n underflows to 0.
    multiples = [1.0]
    for k in range(n // 2, 0, -1):
        multiples.append(multiples[-1] * k / (n - k + 1))
    total = 2 * sum(multiples) - (n + 1) % 2  # an even n has one middle, an odd one two
    tails = list(accumulate(reversed(multiples)))
    return bisect_right(tails, (1 - confidence) / 2 * total)


def half_width(values: Sequence[float]) -> Optional[float]:
    """Return the larger distance from the median to a bound of its 95 % interval, as a fraction of the median.

    Args:
        values: Values whose median is positive, such as throughputs, in any order; may be empty.

    Returns:
        The fraction; None if there is no interval, as with fewer than six values.
    """
    interval = median_interval(values)
    if interval is None:
        return None
    middle = median(values)
    return max(interval[1] - middle, middle - interval[0]) / middle
