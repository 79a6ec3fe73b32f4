"""Estimate how far a window's mean step time is from the stationary mean, and how well the window shows it.

The mean of the whole window is compared with the mean of its later part, behind a quarter, a half and three quarters of
the steps, and with the end of a straight line through all steps, for changes that last as long as the window. A mean,
unlike a robust slope, sees a few slow first steps as the throughput does.

The standard error pools two estimates by their degrees of freedom: the differences between repeats, which hold for
any correlation of steps, and batch means of each repeat's second half, which exist for one repeat as well and see slow
steps that all repeats share. Slow steps at a fixed distance (logging, garbage collection) are part of the stationary
mean: they are spread over their period before the comparison, if the window has at least four periods.

Sources: P. D. Welch, The statistical analysis of simulation results, in The Computer Performance Modeling Handbook,
Academic Press (1983), 268-328 (warm-up from the mean over repeats); K. P. White, An effective truncation heuristic for
bias reduction in simulation output, Simulation 69 (1997), 323-334 (MSER); A. M. Law, Simulation Modeling and Analysis,
5th edition, section 9.5 (batch means).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from attrs import frozen

from dlperf_sdk.results.student_t import quantile
from dlperf_sdk.worker.estimate import median

LIMIT = 0.01
"""Maximum deviation of the window's mean from the stationary mean, as a fraction of the stationary mean."""
FEWEST_STEPS = 20
"""Minimum length of a window that is tested, in steps."""
CONFIDENCE = 0.95
"""One-sided confidence of the bound that must stay within the limit for a pass."""
FAIL_CONFIDENCE = 0.99
"""One-sided confidence of each of three bounds. One of them must exceed the limit for a failure."""

_BATCHES = 5
"""Number of batches that the second half of a window is divided into."""
_LONGEST_PERIOD = 50
_FEWEST_PERIODS = 4
_MOST_FOLDED_STEPS = 2000
"""In a longer window, a period of at most `_LONGEST_PERIOD` does not disturb the comparison."""


@frozen
class Deviation:
    """Deviation of the window's mean step time from an estimate of the stationary mean, as a fraction of the latter."""

    first_step: int | None
    """First step of the later part of the window that gives the estimate; None for the straight line."""
    value: float
    """The deviation; positive if the window is slower than the estimate."""
    bound: float
    """Half-width of the confidence interval, at `CONFIDENCE`."""
    fail_bound: float
    """Half-width of the confidence interval, at `FAIL_CONFIDENCE`."""

    @property
    def is_small(self) -> bool:
        """True if the whole confidence interval, `value` ± `bound`, is within ± `LIMIT` (1 %).

        The one-sided confidence of each end of the interval is `CONFIDENCE` (95 %).
        """
        return abs(self.value) + self.bound <= LIMIT

    @property
    def is_large(self) -> bool:
        """True if the whole confidence interval, `value` ± `fail_bound`, is outside ± `LIMIT` (1 %).

        The one-sided confidence of each end of the interval is `FAIL_CONFIDENCE` (99 %).
        """
        return abs(self.value) - self.fail_bound > LIMIT


@frozen
class SteadyState:
    """Deviations of a window's mean step time from estimates of the stationary mean."""

    deviations: tuple[Deviation, ...]
    """From the window's last three quarters, half and quarter, and from the straight line, in this order."""
    warmup: int | None
    """Number of steps at the start of the window to add to the warm-up; None if no part of the window is steady."""

    @property
    def is_steady(self) -> bool:
        """True if the deviations from the window's last three quarters, last half and straight line are small.

        The straight line is fitted to all steps. The deviation from the last quarter is too noisy to be considered.
        """
        return all(deviation.is_small for deviation in _select_required(self.deviations))

    @property
    def is_unsteady(self) -> bool:
        """True if the deviation from the window's last three quarters, last half or last quarter is large.

        The deviation from the straight line does not count, because the line, which is fitted to all steps, may not fit
        them well.
        """
        return any(deviation.is_large for deviation in self.deviations[:-1])

    @property
    def deciding(self) -> Deviation:
        """The deviation that decides whether the window is steady.

        If the window is unsteady (`is_unsteady`), the deviations from its last three quarters, half and quarter are
        candidates. The one whose interval `value` ± `fail_bound` lies farthest outside ± `LIMIT` is taken.

        Otherwise, the deviations from the last three quarters, from the last half and from the straight line are
        candidates. The one whose interval `value` ± `bound` reaches farthest from zero is taken.
        """
        if self.is_unsteady:
            return max(
                self.deviations[:-1], key=lambda deviation: abs(deviation.value) - deviation.fail_bound
            )
        return max(
            _select_required(self.deviations), key=lambda deviation: abs(deviation.value) + deviation.bound
        )


def assess(series: Sequence[Sequence[float]]) -> SteadyState:
    """Compare the window's mean step time with estimates of the stationary mean, over all repeats of a case.

    If the step times are not steady as measured, and the window has at most 2000 steps, they are compared again without
    their periodic variation; the result is that of the second comparison. In a longer window, they are compared as
    measured.

    Args:
        series: Positive step times in seconds: for each repeat a sequence of at least `FEWEST_STEPS` (20), which is not
            checked. All are cut to the length of the shortest.

    Returns:
        The deviations, and in `warmup` the number of steps to add to the warm-up: 0 if the step times are steady as
        measured, None if no part of the window is steady.

    Raises:
        ValueError: There is no repeat.
    """
    steps = min(map(len, series))
    traces = [list(values[:steps]) for values in series]
    result = SteadyState(_deviations(traces), 0)
    if result.is_steady and not result.is_unsteady:
        return result
    if steps <= _MOST_FOLDED_STEPS:
        traces = [_spread_periodic_steps(values) for values in traces]
    return SteadyState(_deviations(traces), _required_warmup(traces))


def _select_required(deviations: Sequence[Deviation]) -> tuple[Deviation, ...]:
    return (*deviations[:2], deviations[-1])


def _deviations(traces: Sequence[Sequence[float]]) -> tuple[Deviation, ...]:
    steps, repeats = len(traces[0]), len(traces)
    noise, batch_freedom = _noise(traces), repeats * (_BATCHES - 1)
    freedom = batch_freedom + repeats - 1
    cuts = [round(steps * part / 4) for part in (1, 2, 3)]
    units = [math.sqrt(cut / (steps * (steps - cut))) for cut in cuts] + [math.sqrt(3 / steps)]
    per_repeat = zip(*(_compare(values, cuts) for values in traces), strict=True)
    deviations = []
    for cut, unit, values in zip([*cuts, None], units, per_repeat, strict=True):
        variance = (batch_freedom * (noise * unit) ** 2 + _squares(values)) / freedom
        error = math.sqrt(variance / repeats)
        bound, fail_bound = (quantile(level, freedom) * error for level in (CONFIDENCE, FAIL_CONFIDENCE))
        deviations.append(Deviation(cut, _mean(values), bound, fail_bound))
    return tuple(deviations)


def _compare(values: Sequence[float], cuts: Sequence[int]) -> list[float]:
    """Return the deviation of the mean from the mean after each cut, and from the end of the least-squares line.

    Each is a fraction of what the mean is compared with; the last is one of the mean.
    """
    steps, mean = len(values), _mean(values)
    later = [_mean(values[cut:]) for cut in cuts]
    middle = (steps - 1) / 2
    slope = math.fsum((step - middle) * value for step, value in enumerate(values)) * 12 / (steps**3 - steps)
    return [*((mean - part) / part for part in later), -slope * steps / 2 / mean]


def _noise(traces: Sequence[Sequence[float]]) -> float:
    """Return the standard deviation that independent steps with as noisy a mean would have, relative to the mean."""
    half = len(traces[0]) // 2
    edges = [half * batch // _BATCHES for batch in range(_BATCHES + 1)]
    total = 0.0
    for values in traces:
        later = values[-half:]
        means = [_mean(later[low:high]) for low, high in itertools.pairwise(edges)]
        total += _squares(means) / _mean(means) ** 2
    return math.sqrt(total / (len(traces) * (_BATCHES - 1)) * half / _BATCHES)


def _spread_periodic_steps(values: Sequence[float]) -> list[float]:
    """Return step times without their periodic variation, at the same mean level; a copy if they have none.

    Periods from 2 to 50 steps are tried, as far as the values contain at least four of them. The profile of a
    period is the median at each of its steps, on which a few slow first steps have no influence. The profile that
    explains most of the variance is subtracted, if it explains more than half.
    """
    steps = len(values)
    best, flattest = _squares(values) / (steps - 1) / 2, list(values)
    for period in range(2, min(steps // _FEWEST_PERIODS, _LONGEST_PERIOD) + 1):
        profile = [median(values[start::period]) for start in range(period)]
        level = _mean(profile)
        rest = [value - profile[step % period] + level for step, value in enumerate(values)]
        if (variance := _squares(rest) / (steps - period)) < best:
            # A multiple of a period explains as much; to replace it, it must explain more.
            best, flattest = 0.9 * variance, rest
    return flattest


def _required_warmup(traces: Sequence[Sequence[float]]) -> int | None:
    """Return the steps of the window's first half to leave out by the MSER rule; None where the rest still changes."""
    steps = len(traces[0])
    mean = [_mean(column) for column in zip(*traces, strict=True)]
    size = max(1, steps // FEWEST_STEPS)
    cuts = range(0, steps // 2 + 1, size)
    cut = min(cuts, key=lambda first: _squares(mean[first:]) / (steps - first) ** 2)
    rest = mean[cut:]
    later = [round(len(rest) * part / 4) for part in (1, 2)]
    return cut if all(abs(value) <= LIMIT for value in _compare(rest, later)) else None


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _squares(values: Sequence[float]) -> float:
    mean = _mean(values)
    return math.fsum((value - mean) ** 2 for value in values)
