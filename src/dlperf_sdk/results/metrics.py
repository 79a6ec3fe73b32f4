"""Metrics from the records of finished repeats. The functions have no side effects."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dlperf_sdk.interfaces.measurer import Measured, Metric
from dlperf_sdk.results.records import Repeat
from dlperf_sdk.results.result import Workload
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker import estimate


def measured_of(spec: RunSpec, workload: Workload, device: str, repeats: tuple[Repeat, ...]) -> Measured:
    """Return the `Measured` of a case: the repeats and the numbers from which measurers compute metrics.

    Args:
        spec: The case, with a number as batch size.
        workload: The result's facts about the model, of which the FLOPs per sample and the unit are used.
        device: The kind of device that was used, such as `cuda`.
        repeats: The finished repeats.
    """
    return Measured(
        repeats=repeats,
        unit=workload.unit,
        batch_size=spec.batch_size,
        devices=spec.topology.devices,
        device=device,
        precision=spec.precision,
        flops_per_sample=workload.flops_per_sample,
    )


def window_samples(repeat: Repeat) -> int:
    """Return the number of samples that all trainers of a repeat took in the window; 0 without records."""
    return sum(record.samples for record in repeat.records)


def window_seconds(repeat: Repeat) -> float:
    """Return the length of the slowest trainer's window, in seconds.

    Raises:
        ValueError: The repeat has no records.
    """
    return max(record.window.seconds for record in repeat.records)


def throughput(repeat: Repeat) -> float:
    """Return samples per second: the samples of all trainers divided by the length of the slowest trainer's window.

    Raises:
        ValueError: The repeat has no records.
        ZeroDivisionError: The window has no length.
    """
    return estimate.throughput(
        [record.samples for record in repeat.records], [record.window.seconds for record in repeat.records]
    )


def step_times(repeat: Repeat) -> list[float]:
    """Return the duration of each step of the window, in seconds and in order: that of the step's slowest trainer.

    If trainers recorded different numbers of steps, the smallest number counts. Empty without records.
    """
    return estimate.slowest_step_times([record.step_times for record in repeat.records])


def data_wait_fraction(repeat: Repeat) -> float:
    """Return the fraction of the window during which a trainer waited for input; the largest over the trainers.

    Raises:
        ValueError: The repeat has no records.
        ZeroDivisionError: A window has no length.
    """
    return max(math.fsum(record.data_waits) / record.window.seconds for record in repeat.records)


def input_rate(repeat: Repeat, batch_size: int) -> float | None:
    """Return the samples per second that the queues of all trainers together could supply; None if that is unknown.

    Threads or sender processes fill a trainer's queue with batches. The time in which they wait for room in the queue
    does not count. The rate is unknown if a trainer has no queue, or if no time was spent on its batches inside the
    window. Without records it is 0.

    Args:
        repeat: The finished repeat.
        batch_size: Samples in a batch of one replica.
    """
    rates = [
        batch_size * len(record.replicas) * record.input_queue.batches / record.input_queue.seconds
        for record in repeat.records
        if record.input_queue is not None and record.input_queue.seconds > 0
    ]
    return math.fsum(rates) if len(rates) == len(repeat.records) else None


def queue_depth(repeat: Repeat) -> float | None:
    """Return how many batches a trainer's queue holds on average just after a batch was put in.

    It is the smallest average over the trainers of the repeat. None if a trainer has no queue of batches, or if no
    batch was put into its queue inside the window.

    Raises:
        ValueError: The repeat has no records.
    """
    depths = [
        record.input_queue.depth / record.input_queue.batches
        for record in repeat.records
        if record.input_queue is not None and record.input_queue.batches > 0
    ]
    return min(depths) if len(depths) == len(repeat.records) else None


def exchanged_bytes(repeat: Repeat) -> int | None:
    """Return the bytes of gradients that one replica exchanges in a step; the largest number if replicas differ.

    Replicas report an exchange only if the part `communication` of a step is measured. The result is None if a replica
    of the repeat reports no exchange, or if the repeat has no replicas.
    """
    exchanged = [replica.exchanged for record in repeat.records for replica in record.replicas]
    sizes = [buffers.bytes for buffers in exchanged if buffers is not None]
    return max(sizes) if sizes and len(sizes) == len(exchanged) else None


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the value below which `percent` % of the values lie, interpolated linearly between neighbors.

    Source: R. J. Hyndman and Y. Fan, Sample Quantiles in Statistical Packages, The American Statistician 50
    (1996) 361-365, definition 7 (the default of NumPy and R).

    Args:
        values: At least one value, in any order.
        percent: From 0 to 100.

    Raises:
        IndexError: There is no value.
    """
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def metric(name: str, unit: str, repeats: Sequence[float], note: str = "") -> Metric:
    """Return a metric whose value is the median over the repeats, with its distribution-free interval of 95 %.

    Args:
        name: Name of the metric.
        unit: Unit of the values.
        repeats: One value per repeat, at least one. With fewer than six, the ends of the interval are None.
        note: Note for readers, such as a convention or a source; empty for none.

    Raises:
        IndexError: There is no repeat.
    """
    values = tuple(float(value) for value in repeats)
    low, high = estimate.median_interval(values) or (None, None)
    return Metric(name, unit, estimate.median(values), low, high, values, note)


def measured_metric(
    name: str, unit: str, repeats: Sequence[float | None], note: str = ""
) -> tuple[Metric, ...]:
    """Return a tuple of one metric, or an empty tuple if a repeat has no value, or there are no repeats.

    The metric is the one that `metric` returns: its value is the median over the repeats, with a distribution-free
    interval of 95 %. A metric of some of the repeats would not represent the case.

    Args:
        name: Name of the metric.
        unit: Unit of the values.
        repeats: One value per repeat; None for a repeat without a value.
        note: Note for readers, such as a convention or a source; empty for none.
    """
    values = [value for value in repeats if value is not None]
    if not values or len(values) < len(repeats):
        return ()
    return (metric(name, unit, values, note),)
