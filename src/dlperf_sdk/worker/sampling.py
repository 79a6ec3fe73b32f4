"""What the agent samples on its node while the workers work."""

import time
from typing import Any, Dict, List, Sequence, Tuple

from dlperf_sdk.worker.request import resolve

PERIOD = 0.2
"""Seconds between two samples; counters lose nothing in between."""


class Sampling:
    """The samplers that found something to sample, and the series they make."""

    def __init__(self, samplers: Sequence[str], devices: Sequence[str], node: int) -> None:
        self._node = node
        self._series: Dict[Tuple[str, str], Dict[str, Any]] = {}
        self._open: List[Any] = []
        self._due = 0.0
        for reference in samplers:
            sampler = resolve(reference)(tuple(devices))
            if sampler.open():
                self._open.append(sampler)

    def look(self, now: float) -> None:
        """Sample, if it is time to."""
        if now < self._due:
            return
        self._due = now + PERIOD
        for sampler in self._open:
            taken = time.monotonic()
            for name, device, unit, kind, value in sampler.sample():
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
                series["times"].append(taken)
                series["values"].append(value)

    def close(self) -> List[Dict[str, Any]]:
        """One last sample, and all series."""
        self._due = 0.0
        self.look(time.monotonic())
        for sampler in self._open:
            sampler.close()
        return list(self._series.values())
