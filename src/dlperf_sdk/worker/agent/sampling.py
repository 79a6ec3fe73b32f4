"""Sample a node while its workers run."""

import math
import resource
import time
from typing import Any, Dict, List, Sequence, Tuple

from dlperf_sdk.worker.request import resolve

PERIOD = 0.2
"""Seconds between two samples; counters lose nothing in between."""


def _own_seconds() -> float:
    """Return the processor seconds, user and system, of this process and of its descendants that have ended."""
    used = [resource.getrusage(target) for target in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


class Sampling:
    """The samplers that can measure something on this node, and their series.

    There is always the series `cpu-own`: the processor seconds of the agent and its workers, at the beginning and at
    the end. Compared with the processor seconds of the whole node, it shows how many other processes used.

    Args:
        samplers: `module:attribute` of each sampler's class, which is built and opened.
        devices: Identifiers of the node's devices.
        node: The node's number.

    Raises:
        ImportError: The module of a sampler cannot be imported.
        AttributeError: The module of a sampler has no such attribute.
    """

    def __init__(self, samplers: Sequence[str], devices: Sequence[str], node: int) -> None:
        self._node = node
        self._series: Dict[Tuple[str, str], Dict[str, Any]] = {}
        self._open: List[Any] = []
        self._due = 0.0
        self._own_usage = [(time.monotonic(), _own_seconds())]
        for reference in samplers:
            sampler = resolve(reference)(tuple(devices))
            if sampler.open():
                self._open.append(sampler)

    def sample_if_due(self, now: float) -> None:
        """Take one sample of every sampler if `PERIOD` (0.2) seconds have passed since the last samples.

        Values that are not finite are left out.

        Args:
            now: The time, in seconds of the monotonic clock.
        """
        if now < self._due:
            return
        self._due = now + PERIOD
        for sampler in self._open:
            sampled_at = time.monotonic()
            for name, device, unit, kind, value in sampler.sample():
                if not isinstance(value, (int, float)) or not math.isfinite(value):
                    continue  # a value that could not be measured is left out
                fresh = {
                    "node": self._node,
                    "name": name,
                    "device": device,
                    "unit": unit,
                    "kind": kind,
                    "times": [],
                    "values": [],
                }
                series = self._series.setdefault((name, device), fresh)
                series["times"].append(sampled_at)
                series["values"].append(value)

    def close(self) -> List[Dict[str, Any]]:
        """Take a last sample of every sampler, close the samplers, and return all series.

        Call this after all workers have ended: only then their processor seconds count.

        Returns:
            The series, each with the fields of `dlperf_sdk.results.records.Series`: `node`, `name`, `device`, `unit`,
            `kind`, `times` (seconds of the monotonic clock) and `values`, one for each time. They have the order of
            their first samples; the last series is `cpu-own`.
        """
        self._due = 0.0
        self.sample_if_due(time.monotonic())
        for sampler in self._open:
            sampler.close()
        self._own_usage.append((time.monotonic(), _own_seconds()))
        series = {
            "node": self._node,
            "name": "cpu-own",
            "device": "host",
            "unit": "s",
            "kind": "counter",
            "times": [sampled_at for sampled_at, _ in self._own_usage],
            "values": [seconds for _, seconds in self._own_usage],
        }
        return [*self._series.values(), series]
