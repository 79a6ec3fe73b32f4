"""The throughput, which is the published figure."""

from __future__ import annotations

from typing import ClassVar

from dlperf_sdk.interfaces.measurer import Measured, Measurer, Metric
from dlperf_sdk.results import metrics
from dlperf_sdk.spec.precision import PRECISIONS


class Throughput(Measurer):
    """Measurer of `throughput` of all devices and per device, and of `skipped-steps`."""

    name: ClassVar[str] = "throughput"

    def summarize(self, measured: Measured) -> tuple[Metric, ...]:
        """Return `throughput` and `throughput-per-device` in the model's unit, such as img/s; empty without repeats.

        `skipped-steps`, a number of steps, is added if the precision uses a loss scaler, or any step was skipped.
        `measured` holds the repeats of one case.
        """
        rates = [metrics.throughput(repeat) for repeat in measured.repeats]
        skipped = [max(record.skipped_steps for record in repeat.records) for repeat in measured.repeats]
        if not rates:
            return ()
        note = "samples of all processes over the slowest process's window"
        results = [
            metrics.metric("throughput", measured.unit, rates, note),
            metrics.metric(
                "throughput-per-device", measured.unit, [rate / measured.devices for rate in rates], note
            ),
        ]
        if PRECISIONS[measured.precision].scales_loss or any(skipped):
            note = "optimization steps in the window that the loss scaler skipped"
            results.append(metrics.metric("skipped-steps", "steps", skipped, note))
        return tuple(results)
