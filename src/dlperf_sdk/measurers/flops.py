"""The achieved arithmetic rate, and its share of the device's peak."""

from __future__ import annotations

from typing import ClassVar

from dlperf_sdk.interfaces.measurer import Measured, Measurer, Metric
from dlperf_sdk.measurers.peaks import Peak, peak
from dlperf_sdk.results import metrics

_CONVENTION = "the model's matrix work, 1 multiply-accumulate = 2 FLOP"


class Flops(Measurer):
    """Measurer of `flops-per-device`, and of `mfu` (model FLOP utilization) if the peak of the devices is known.

    The work is the model's own arithmetic: what a framework computes twice, or pads, does not count. MFU is
    defined by A. Chowdhery et al., PaLM: Scaling Language Modeling with Pathways, arXiv:2204.02311, appendix B.
    """

    name: ClassVar[str] = "flops"

    def summarize(self, measured: Measured) -> tuple[Metric, ...]:
        """Return `flops-per-device` in FLOP/s, and `mfu` in % if all devices have the same known peak.

        `measured` holds the repeats of one case. The result is empty without repeats, or if the model declares no
        FLOPs.
        """
        if not measured.flops_per_sample or not measured.repeats:
            return ()
        rates = [
            metrics.throughput(repeat) / measured.devices * measured.flops_per_sample
            for repeat in measured.repeats
        ]
        results = [metrics.metric("flops-per-device", "FLOP/s", rates, _CONVENTION)]
        known = _peak(measured)
        if known is not None:
            note = f"of {known.flops:.4g} FLOP/s, dense ({known.source}); {_CONVENTION}"
            results.append(metrics.metric("mfu", "%", [100 * rate / known.flops for rate in rates], note))
        return tuple(results)


def _peak(measured: Measured) -> Peak | None:
    """Return the peak that all devices share; None if they differ or the runtime does not name them."""
    names: set[str] = set()
    for repeat in measured.repeats:
        for record in repeat.records:
            devices = record.facts.get("devices")
            if not isinstance(devices, list | tuple) or not devices:
                return None
            names.update(str(device) for device in devices)
    return peak(names.pop(), measured.precision) if len(names) == 1 else None
