"""The distribution of the step times, and the time spent waiting for input."""

from __future__ import annotations

from typing import ClassVar

from dlperf_sdk.interfaces.measurer import Measured, Measurer, Metric
from dlperf_sdk.results import metrics

_PERCENTILES = (("median", 50, 1), ("p90", 90, 10), ("p99", 99, 100))
"""Suffix, percent, and the fewest steps: below them the percentile is only another name for the maximum."""


class StepTime(Measurer):
    """Measurer of `step-time-median`, `step-time-p90`, `step-time-p99` and `data-wait`."""

    name: ClassVar[str] = "step-time"

    def summarize(self, measured: Measured) -> tuple[Metric, ...]:
        """Return percentiles of the step times in seconds, and `data-wait` in % of the window.

        Empty without repeats. Per step, the slowest process counts. p90 needs 10 steps per repeat, and p99 100.
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
        return (*results, metrics.metric("data-wait", "%", waits, note))
