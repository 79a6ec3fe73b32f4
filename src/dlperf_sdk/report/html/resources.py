"""Memory, energy, power and utilisation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dlperf_sdk.report.html import spread
from dlperf_sdk.report.html.page import Item, Section
from dlperf_sdk.report.html.results import names
from dlperf_sdk.results.result import Result

_METRICS = (
    ("peak-device-memory", "Peak device memory, of the process that took most"),
    ("peak-host-memory", "Peak host memory, of the process that took most"),
    ("device-energy-per-sample", "Energy per sample, all devices"),
    ("host-energy-per-sample", "Energy per sample, everything on the nodes"),
    ("device-power", "Power, all devices"),
    ("host-power", "Power, everything on the nodes"),
    ("device-utilisation", "Time with a kernel running, mean over the devices"),
    ("mfu", "Model FLOPs utilisation"),
)


def section(results: Sequence[Result]) -> Section:
    """Memory, energy, power and utilisation, as far as somebody could measure them."""
    named = names(results)
    items: list[Item] = []
    for name, title in _METRICS:
        values, units = [], set()
        for label, result in zip(named, results, strict=True):
            metric = result.metric(name)
            if metric is None or not math.isfinite(metric.value):
                continue
            units.add(metric.unit)
            spec = result.spec
            kind = f"{spec.framework} {spec.model} {spec.topology} {spec.precision}"
            bounds = (metric.low, metric.high)
            low, high = bounds if all(b is not None and math.isfinite(b) for b in bounds) else (None, None)
            values.append(spread.Value(label, kind, spec.framework, metric.value, low, high))
        if values and len(units) == 1:
            items.append(spread.plot(values, name.replace("-", " "), units.pop(), title))
    lede = "What nobody could measure is not here: it is never taken for zero."
    return Section("Memory and energy", tuple(items), lede if items else "")
