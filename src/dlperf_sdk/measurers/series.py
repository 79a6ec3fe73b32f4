"""Restrict samplers' series to a window: pure functions.

Samples are taken at intervals that do not match the window. Values in between are interpolated, but only if the
samples are close together compared with the window. Otherwise the result is None.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left

from dlperf_sdk.results.records import Series, Window

COARSEST = 0.2
"""Largest distance of two samples, as a fraction of the window. An edge of the window is then misplaced by a tenth
of it at most on average, and only the difference between the load inside and outside is misplaced."""


def growth(series: Series, window: Window) -> float | None:
    """Return a counter's increase in the window, in the counter's unit.

    Args:
        series: Readings of the counter, in the order of time.
        window: The window, on the clock of the readings.

    Returns:
        The increase; None if the counter ever decreased, if the first reading is after the start of the window or the
        last before its end, or if the two readings around an end are more than 20 % of the window's length apart.
    """
    start, end = _interpolate(series, window.start, window), _interpolate(series, window.end, window)
    if start is None or end is None:
        return None
    return None if _falls(series) else end - start


def integral(series: Series, window: Window) -> float | None:
    """Return a gauge's integral over the window, by trapezoids, in the gauge's unit times seconds.

    Args:
        series: Readings of the gauge, in the order of time.
        window: The window, on the clock of the readings.

    Returns:
        The integral; None if the readings do not cover the window, or if two successive readings are further apart than
        20 % of the window's length.
    """
    start, end = _interpolate(series, window.start, window), _interpolate(series, window.end, window)
    if start is None or end is None:
        return None
    samples = zip(series.times, series.values, strict=True)
    inside = [sample for sample in samples if window.start < sample[0] < window.end]
    pairs = list(itertools.pairwise([(window.start, start), *inside, (window.end, end)]))
    if any(later - earlier > COARSEST * window.seconds for (earlier, _), (later, _) in pairs):
        return None
    return math.fsum((later - earlier) * (a + b) / 2 for (earlier, a), (later, b) in pairs)


def mean(series: Series, window: Window) -> float | None:
    """Return a gauge's time-weighted mean over the window, in the gauge's unit.

    Args:
        series: Readings of the gauge, in the order of time.
        window: The window, on the clock of the readings.

    Returns:
        The mean; None if the readings do not cover the window, or if two successive readings are further apart than
        20 % of the window's length.
    """
    total = integral(series, window)
    return None if total is None else total / window.seconds


def _falls(series: Series) -> bool:
    return any(later < earlier for earlier, later in itertools.pairwise(series.values))


def _interpolate(series: Series, time: float, window: Window) -> float | None:
    """Interpolate the value at a time between the samples around it."""
    if window.seconds <= 0:
        return None
    after = bisect_left(series.times, time)
    if after < len(series.times) and series.times[after] == time:
        return series.values[after]
    if after in (0, len(series.times)):
        return None
    earlier, later = series.times[after - 1], series.times[after]
    if later - earlier > COARSEST * window.seconds:
        return None
    share = (time - earlier) / (later - earlier)
    return series.values[after - 1] * (1 - share) + series.values[after] * share
