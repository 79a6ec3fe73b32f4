"""The section on memory, energy, power and utilization."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dlperf_sdk.reports.blocks import Paragraph
from dlperf_sdk.reports.html import spread
from dlperf_sdk.reports.html.page import Folded, Item, Section
from dlperf_sdk.reports.html.results import names
from dlperf_sdk.reports.labels import batch_size
from dlperf_sdk.results.result import Result

_METRICS = (
    ("peak-device-memory", "Peak device memory, of the process that took most"),
    ("peak-host-memory", "Peak host memory, of the process that took most"),
    ("device-energy-per-sample", "Energy per sample, all devices"),
    ("host-energy-per-sample", "Energy per sample, everything on the nodes"),
    ("device-power", "Power, all devices"),
    ("host-power", "Power, everything on the nodes"),
    ("device-utilization", "Time with a kernel running, mean over the devices"),
    ("mfu", "Model FLOPs utilization"),
)


_MAX_PLOTS = 1
"""Maximum number of plots of a metric and a workload. Other values are in the table of results."""


def section(results: Sequence[Result]) -> Section:
    """Return the section on memory, energy, power and utilization, with a plot for each metric and workload.

    It has no items if none of these metrics was measured. A metric whose values have several units in a workload has no
    plot there.
    """
    groups: dict[tuple[str, str], list[tuple[str, Result]]] = {}
    named = sorted(zip(names(results), results, strict=True), key=lambda entry: _size(entry[1]))
    for label, result in named:
        groups.setdefault((result.spec.model, batch_size(result.spec)), []).append((label, result))
    items: list[Item] = []
    for name, title in _METRICS:
        plots: list[Item] = []
        for (model, batch), members in groups.items():
            values = [value for label, result in members if (value := _value(label, result, name))]
            units = {metric.unit for _, result in members if (metric := result.metric(name))}
            if values and len(units) == 1:
                workload = f"{title}: {model}, {batch} per device"
                plots += spread.plots(values, name.replace("-", " "), units.pop(), workload, _MAX_PLOTS)
                if len(values) > spread.MAX_VALUES:
                    plots.append(Paragraph("Further cases are in the table of results.", "quiet"))
        if plots:
            items.append(Folded(title, tuple(plots)))
    lede = "A quantity that could not be measured is absent, never zero."
    return Section("Memory and energy", tuple(items), lede if items else "")


def _size(result: Result) -> tuple[str, bool, int, int]:
    spec = result.spec
    return (
        spec.model,
        spec.wants_max_batch,
        0 if spec.wants_max_batch else spec.batch_size,
        -spec.topology.devices,
    )


def _value(label: str, result: Result, name: str) -> spread.Value | None:
    metric = result.metric(name)
    if metric is None or not math.isfinite(metric.value):
        return None
    spec = result.spec
    low, high = metric.low, metric.high
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        low = high = None
    facet = f"{spec.topology} {spec.precision}"
    return spread.Value(label, facet, spec.framework, metric.value, low, high)
