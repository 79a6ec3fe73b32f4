"""The bytes and the bandwidth of a gradient exchange that was measured alone."""

from __future__ import annotations

from typing import ClassVar

from dlperf_sdk.interfaces.measurer import Measured, Measurer, Metric
from dlperf_sdk.results import metrics

_CONVENTION = "2 (n - 1) / n of the exchanged bytes in a step's mean time, n devices, as in nccl-tests"


class Communication(Measurer):
    """Measurer of `exchanged-bytes` and `bus-bandwidth`, if the communication was measured alone.

    The bus bandwidth is that of NVIDIA's nccl-tests (doc/PERFORMANCE.md): the rate of the slowest link of a ring.
    This rate does not depend on the number of devices.
    """

    name: ClassVar[str] = "communication"

    def summarize(self, measured: Measured) -> tuple[Metric, ...]:
        """Return `exchanged-bytes`, the bytes per device and step, and `bus-bandwidth` in B/s.

        `measured` holds the repeats of one case. The result is empty unless every repeat measured the exchange of
        gradients alone, the part `communication`.
        """
        sizes = [metrics.exchanged_bytes(repeat) for repeat in measured.repeats]
        if not sizes or None in sizes:
            return ()
        factor = 2 * (measured.devices - 1) / measured.devices
        rates = [
            factor * size * len(metrics.step_times(repeat)) / metrics.window_seconds(repeat)
            for size, repeat in zip(sizes, measured.repeats, strict=True)
            if size is not None
        ]
        return (
            *metrics.measured_metric("exchanged-bytes", "B", sizes, "gradients of one device in one step"),
            *metrics.measured_metric("bus-bandwidth", "B/s", rates, _CONVENTION),
        )
