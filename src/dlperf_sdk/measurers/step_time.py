"""The distribution of the step times, and the wait for the input."""

from __future__ import annotations

from typing import ClassVar

from dlperf_sdk.interfaces.measurer import Measured, Measurer, Metric
from dlperf_sdk.results import metrics

_PERCENTILES = (("median", 50, 1), ("p90", 90, 10), ("p99", 99, 100))
"""Suffix, percent, and the fewest steps: below them the percentile is only another name for the maximum."""


class StepTime(Measurer):
    """`step-time-median`, `-p90`, `-p99` and `data-wait`."""

    name: ClassVar[str] = "step-time"

    def summarize(self, measured: Measured) -> tuple[Metric, ...]:
        """Return the metrics of step times; none without repeats."""
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
        waits = [100 * metrics.data_wait(repeat) for repeat in measured.repeats]
        note = "share of the window, of the process that waited longest for its input"
        return (*results, metrics.metric("data-wait", "%", waits, note))
