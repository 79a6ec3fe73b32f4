"""The distribution of the step times, the time spent waiting for input, and the queue of the input."""

from __future__ import annotations

from typing import ClassVar

from dlperf_sdk.interfaces.measurer import Measured, Measurer, Metric
from dlperf_sdk.results import metrics

_PERCENTILES = (("median", 50, 1), ("p90", 90, 10), ("p99", 99, 100))
"""Suffix, percent, and the fewest steps: below them the percentile is only another name for the maximum."""


class StepTime(Measurer):
    """Measurer of `step-time-median`, `step-time-p90`, `step-time-p99`, `data-wait` and metrics of input queues.

    The metrics of input queues, `input-rate` and `input-queue-depth`, exist only if the batches come from queues that
    count them, as with `python-queue` and `zmq`.
    """

    name: ClassVar[str] = "step-time"

    def summarize(self, measured: Measured) -> tuple[Metric, ...]:
        """Return metrics of the step times, of the time spent waiting for input, and of queues of batches.

        Each metric has one value per repeat, and its own value is their median. The metrics are:

        - `step-time-median`, `step-time-p90` and `step-time-p99`: percentiles, in seconds, over the steps of the
          window. The time of a step is the longest that any process took for it. With fewer than 10 steps per repeat,
          the p90 is left out; with fewer than 100, the p99.
        - `data-wait`: the share of the window, in %, in which a process waited for its input; the largest over the
          processes.
        - `input-rate`, if queues count their batches: the samples per second that could be put into the queues.
        - `input-queue-depth`, if queues count their batches: the mean number of batches in a queue.

        `measured` holds the repeats of one case; the result is empty without repeats.
        """
        if not measured.repeats:
            return ()
        times = [metrics.step_times(repeat) for repeat in measured.repeats]
        clocks = sorted({record.clock for repeat in measured.repeats for record in repeat.records})
        note = f"per step the slowest process; clock: {', '.join(clocks)}"
        results = [
            metrics.metric(
                f"step-time-{suffix}",
                "s",
                [metrics.percentile(durations, percent) for durations in times],
                note,
            )
            for suffix, percent, minimum in _PERCENTILES
            if min(map(len, times)) >= minimum
        ]
        waits = [100 * metrics.data_wait_fraction(repeat) for repeat in measured.repeats]
        note = "share of the window, of the process that waited longest for its input"
        return (
            *results,
            metrics.metric("data-wait", "%", waits, note),
            *metrics.measured_metric(
                "input-rate",
                measured.unit,
                [metrics.input_rate(repeat, measured.batch_size) for repeat in measured.repeats],
                "rate at which the threads or senders that queue batches can make them; all together",
            ),
            *metrics.measured_metric(
                "input-queue-depth",
                "batches",
                [metrics.queue_depth(repeat) for repeat in measured.repeats],
                "mean after a batch was queued, of the process with the lowest",
            ),
        )
