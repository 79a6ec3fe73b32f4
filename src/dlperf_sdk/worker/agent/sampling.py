"""Sample a node while its workers run."""

import math
import resource
import time
from typing import Any, Dict, List, Sequence, Tuple

from dlperf_sdk.worker.request import resolve

PERIOD = 0.2
"""Seconds between two samples; counters lose nothing in between."""


def own_seconds() -> float:
    """Return processor seconds of this process and of everything that it has started and that has ended."""
    used = [resource.getrusage(target) for target in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


class Sampling:
    """The samplers that found something to sample, and the series they make.

    One series is always there: `cpu-own`, the processor seconds of the agent with its workers, when sampling begins
    and when it ends. What a node's processors did besides was somebody else's.
    """

    def __init__(self, samplers: Sequence[str], devices: Sequence[str], node: int) -> None:
        self._node = node
        self._series: Dict[Tuple[str, str], Dict[str, Any]] = {}
        self._open: List[Any] = []
        self._due = 0.0
        self._own_usage = [(time.monotonic(), own_seconds())]
        for reference in samplers:
            sampler = resolve(reference)(tuple(devices))
            if sampler.open():
                self._open.append(sampler)

    def sample_if_due(self, now: float) -> None:
        """Take one sample of every sampler if the interval has passed at `now`, in seconds of the monotonic clock."""
        if now < self._due:
            return
        self._due = now + PERIOD
        for sampler in self._open:
            sampled_at = time.monotonic()
            for name, device, unit, kind, value in sampler.sample():
                if not isinstance(value, (int, float)) or not math.isfinite(value):
                    continue  # nobody could measure it: absent
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
        """Take a last sample and return all series. All workers have ended."""
        self._due = 0.0
        self.sample_if_due(time.monotonic())
        for sampler in self._open:
            sampler.close()
        self._own_usage.append((time.monotonic(), own_seconds()))
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
