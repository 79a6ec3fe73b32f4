"""Records → numbers: pure functions on the finished repeats of a case."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.results.records import Repeat
from dlperf_sdk.worker import estimate


def samples(repeat: Repeat) -> int:
    """Return the samples that all processes took in the window."""
    return sum(record.samples for record in repeat.records)


def seconds(repeat: Repeat) -> float:
    """Return the seconds of the slowest process's window."""
    return max(record.window.seconds for record in repeat.records)


def throughput(repeat: Repeat) -> float:
    """Return samples per second: the samples of all processes over the slowest process's window."""
    return estimate.throughput(
        [record.samples for record in repeat.records], [record.window.seconds for record in repeat.records]
    )


def step_times(repeat: Repeat) -> list[float]:
    """Return seconds per step, of the process that was slowest in that step."""
    return estimate.slowest([record.step_times for record in repeat.records])


def data_wait(repeat: Repeat) -> float:
    """Return the fraction of its window for which the process that waited longest waited for input."""
    return max(math.fsum(record.data_waits) / record.window.seconds for record in repeat.records)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value below which `percent` % of the values lie, interpolated linearly between neighbors.

    Source: R. J. Hyndman and Y. Fan, Sample Quantiles in Statistical Packages, The American Statistician 50
    (1996) 361-365, definition 7 (the default of NumPy and R).
    """
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def metric(name: str, unit: str, repeats: Sequence[float], note: str = "") -> Metric:
    """Return a metric of one value per repeat: their median, and its distribution-free interval from six repeats on.

    Args:
        name: The metric's name.
        unit: Its unit.
        repeats: One value per repeat.
        note: A remark for readers.
    """
    values = tuple(float(value) for value in repeats)
    low, high = estimate.median_interval(values) or (None, None)
    return Metric(name, unit, estimate.median(values), low, high, values, note)


def measured_metric(
    name: str, unit: str, repeats: Sequence[float | None], note: str = ""
) -> tuple[Metric, ...]:
    """Return the metric if every repeat has a value, else nothing: some of the repeats would not represent the case.

    The arguments are those of `metric`; None is a repeat without a value.
    """
    values = [value for value in repeats if value is not None]
    if not values or len(values) < len(repeats):
        return ()
    return (metric(name, unit, values, note),)
