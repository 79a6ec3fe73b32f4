"""The peak of memory."""

from __future__ import annotations

from typing import ClassVar

from dlperf_sdk.interfaces.measurer import Measured, Measurer, Metric
from dlperf_sdk.results import metrics


class Memory(Measurer):
    """Measurer of `peak-host-memory` and `peak-device-memory`, both of the process that took most."""

    name: ClassVar[str] = "memory"

    def summarize(self, measured: Measured) -> tuple[Metric, ...]:
        """Return `peak-host-memory` and `peak-device-memory` in bytes; the latter only if every process reported it.

        `measured` holds the repeats of one case. The result is empty without repeats.
        """
        host = [max(record.peak_host_memory for record in repeat.records) for repeat in measured.repeats]
        device: list[float | None] = []
        for repeat in measured.repeats:
            peaks = [record.peak_device_memory for record in repeat.records]
            known = [peak for peak in peaks if peak is not None]
            device.append(max(known) if len(known) == len(peaks) else None)
        return (
            *metrics.measured_metric("peak-host-memory", "B", host, "of one process, since its start"),
            *metrics.measured_metric(
                "peak-device-memory", "B", device, "of one process, in the window, as its framework counts it"
            ),
        )
