"""Energy, power, utilization and clocks, from the samples of the agents."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar

from attrs import frozen

from dlperf_sdk.interfaces.measurer import Measured, Measurer, Metric
from dlperf_sdk.measurers import series
from dlperf_sdk.results import metrics
from dlperf_sdk.results.records import Repeat, Series, Window

_COUNTER, _INTEGRAL = "from the energy counter", "power readings, integrated"


@frozen
class _Energy:
    """Joules in the windows, watts in the mean, both summed over devices or nodes."""

    joules: float
    watts: float
    source: str


class Power(Measurer):
    """Measurer of energy, power and utilization: `device-…` for GPUs, `host-…` for the nodes' processors and memory.

    A metric is present only if its quantity was sampled on every node, for every device, in every repeat.
    """

    name: ClassVar[str] = "power"
    samplers: ClassVar[tuple[str, ...]] = (
        "dlperf_sdk.worker.samplers.nvml:Sampler",
        "dlperf_sdk.worker.samplers.rapl:Sampler",
        "dlperf_sdk.worker.samplers.host:Sampler",
    )

    def summarize(self, measured: Measured) -> tuple[Metric, ...]:
        """Return the metrics for which readings of sensors cover the windows of all repeats; empty if there are none.

        For devices, these are `device-energy` (J), `device-energy-per-sample` (J), `device-power` (W),
        `device-utilization` (%), `device-clock` (MHz) and `device-throttled` (%); for nodes, `host-energy` (J),
        `host-energy-per-sample` (J), `host-power` (W), `host-utilization` (%) and `host-steal` (%). `measured` holds
        the repeats of one case.
        """
        results = list(_energy_metrics("device", measured.repeats, _device_energy, "all devices"))
        for name, unit, value, note in _QUANTITIES:
            values = [value(repeat) for repeat in measured.repeats]
            results += metrics.measured_metric(name, unit, values, note)
        results += _energy_metrics("host", measured.repeats, _host_energy, "everything on the nodes")
        return tuple(results)


def _energy_metrics(
    prefix: str, repeats: tuple[Repeat, ...], energy_of: Callable[[Repeat], _Energy | None], scope: str
) -> tuple[Metric, ...]:
    energies = [energy_of(repeat) for repeat in repeats]
    known = [energy for energy in energies if energy is not None]
    if len(known) < len(repeats):
        return ()
    note = "; ".join((scope, *sorted({energy.source for energy in known})))
    per_sample = [
        energy.joules / metrics.window_samples(repeat) for energy, repeat in zip(known, repeats, strict=True)
    ]
    return (
        *metrics.measured_metric(f"{prefix}-energy", "J", [energy.joules for energy in known], note),
        *metrics.measured_metric(f"{prefix}-energy-per-sample", "J", per_sample, note),
        *metrics.measured_metric(f"{prefix}-power", "W", [energy.watts for energy in known], note),
    )


def _device_energy(repeat: Repeat) -> _Energy | None:
    """Return the energy of all replicas' devices, each in the window of the process that owns it."""
    return _sum(
        _energy(_series(repeat, node, device, "energy"), _series(repeat, node, device, "power"), window)
        for node, device, window in _devices(repeat)
    )


def _host_energy(repeat: Repeat) -> _Energy | None:
    """Return the energy of all packages and their memory, on every node."""
    zones = []
    for node, window in _nodes(repeat).items():
        counters = [
            recorded
            for recorded in repeat.series
            if recorded.node == node
            and recorded.name == "energy"
            and recorded.device.startswith(("package-", "dram-"))
        ]
        zones += [_energy(recorded, None, window) for recorded in counters] or [None]
    return _sum(zones)


def _energy(counter: Series | None, power: Series | None, window: Window) -> _Energy | None:
    """Return the energy from the counter if there is one, else from the power."""
    joules, source = None if counter is None else series.growth(counter, window), _COUNTER
    if joules is None and power is not None:
        joules, source = series.integral(power, window), _INTEGRAL
    return None if joules is None else _Energy(joules, joules / window.seconds, source)


def _sum(parts: Iterable[_Energy | None]) -> _Energy | None:
    summands = list(parts)
    known = [part for part in summands if part is not None]
    if not known or len(known) < len(summands):
        return None
    sources = ", ".join(sorted({part.source for part in known}))
    return _Energy(math.fsum(part.joules for part in known), math.fsum(part.watts for part in known), sources)


def _device_mean(repeat: Repeat, name: str) -> float | None:
    """Return a gauge's mean over the window and over the replicas' devices."""
    means = []
    for node, device, window in _devices(repeat):
        recorded = _series(repeat, node, device, name)
        value = None if recorded is None else series.mean(recorded, window)
        if value is None:
            return None
        means.append(value)
    return math.fsum(means) / len(means) if means else None


def _host_share(repeat: Repeat, state: str) -> float | None:
    """Return the percentage of all nodes' processor time that was spent in a state."""
    spent = total = 0.0
    for node, window in _nodes(repeat).items():
        increases = {}
        for name in ("busy", "idle", "steal"):
            recorded = _series(repeat, node, "host", f"cpu-{name}")
            value = None if recorded is None else series.growth(recorded, window)
            if value is None:
                return None
            increases[name] = value
        spent, total = spent + increases[state], total + math.fsum(increases.values())
    return 100 * spent / total if total else None


def _devices(repeat: Repeat) -> list[tuple[int, str, Window]]:
    return [
        (record.node, replica.device, record.window)
        for record in repeat.records
        for replica in record.replicas
    ]


def _nodes(repeat: Repeat) -> dict[int, Window]:
    """Return each node's window: from its first trainer's start to its last one's end.

    Nothing where one of the nodes has no trainer, and so no window on its own clock: a part is not the whole.
    """
    windows: dict[int, Window] = {}
    for record in repeat.records:
        known = windows.get(record.node, record.window)
        windows[record.node] = Window(
            min(known.start, record.window.start), max(known.end, record.window.end)
        )
    return windows if {recorded.node for recorded in repeat.series} <= set(windows) else {}


def _series(repeat: Repeat, node: int, device: str, name: str) -> Series | None:
    for recorded in repeat.series:
        if (recorded.node, recorded.device, recorded.name) == (node, device, name):
            return recorded
    return None


def _throttled_percent(repeat: Repeat) -> float | None:
    share = _device_mean(repeat, "throttled")
    return None if share is None else 100 * share


_QUANTITIES: tuple[tuple[str, str, Callable[[Repeat], float | None], str], ...] = (
    ("device-utilization", "%", partial(_device_mean, name="utilization"), "time with a kernel running"),
    ("device-clock", "MHz", partial(_device_mean, name="clock"), "mean over the devices"),
    ("device-throttled", "%", _throttled_percent, "time slowed down by heat or a power brake"),
    ("host-utilization", "%", partial(_host_share, state="busy"), "everything on the nodes"),
    ("host-steal", "%", partial(_host_share, state="steal"), "time taken by other virtual machines"),
)
"""Name, unit, value in a repeat, and note."""
