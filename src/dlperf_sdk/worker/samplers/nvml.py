"""Sample NVIDIA GPUs through NVML."""

from typing import Any, Callable, List, Optional, Sequence, Tuple

from dlperf_sdk.worker.gpu.nvml import LIBRARY, POWER_CAP, SLOWDOWNS, Nvml


class Sampler:
    """Sampler of the node's GPUs: energy, power, utilization, memory, clock, temperature, throttling, processes.

    `processes` is the number of processes that compute on the GPU: 1 for a worker alone, if the driver lets this
    node see it. `throttled` is 1 while heat, a hardware slowdown or a power brake lowers the GPU's clocks, else 0.
    `power-capped` is 1 while the GPU's power limit lowers them, as is usual under full load, else 0.

    Args:
        devices: Identifiers of the node's devices; those that are no UUID of a GPU are left out.
        library: The name or path of NVML.
    """

    def __init__(self, devices: Sequence[str], library: str = LIBRARY) -> None:
        self._uuids = [device for device in devices if device.startswith(("GPU-", "MIG-"))]
        self._path = library
        self._nvml: Optional[Nvml] = None
        self._handles: List[Tuple[str, Any]] = []

    def open(self) -> bool:
        """Open NVML; return True if NVML knows any of the node's devices, else close NVML and return False."""
        self._nvml = Nvml.open(self._path) if self._uuids else None
        if self._nvml is None:
            return False
        handles = [(uuid, self._nvml.device(uuid)) for uuid in self._uuids]
        self._handles = [(uuid, handle) for uuid, handle in handles if handle is not None]
        if not self._handles:
            self.close()
        return bool(self._handles)

    def sample(self) -> List[Tuple[str, str, str, str, float]]:
        """Return one sample of each series that can be read: (name, the GPU's UUID, unit, kind, value).

        `energy` has the kind `counter` and the unit `J`. All other series have the kind `gauge`: `power` in `W`,
        `utilization` in `%`, `memory` in `B`, `clock` in `MHz`, `temperature` in `C`; and `throttled`, `power-capped`
        and `processes` with the unit `1`. The list is empty unless `open` returned True.
        """
        nvml = self._nvml
        if nvml is None:
            return []
        quantities: List[Tuple[str, str, str, Callable[[Any], Optional[float]]]] = [
            ("energy", "J", "counter", nvml.energy),
            ("power", "W", "gauge", nvml.power),
            ("utilization", "%", "gauge", nvml.utilization),
            ("memory", "B", "gauge", lambda device: _read_used_memory(nvml, device)),
            ("clock", "MHz", "gauge", nvml.clock),
            ("temperature", "C", "gauge", nvml.temperature),
            ("throttled", "1", "gauge", lambda device: _bits(nvml, device, SLOWDOWNS)),
            ("power-capped", "1", "gauge", lambda device: _bits(nvml, device, POWER_CAP)),
            ("processes", "1", "gauge", lambda device: _computing(nvml, device)),
        ]
        sampled = []
        for uuid, handle in self._handles:
            for name, unit, kind, read in quantities:
                value = read(handle)
                if value is not None:
                    sampled.append((name, uuid, unit, kind, value))
        return sampled

    def close(self) -> None:
        """Shut NVML down, if it is open; afterwards `sample` returns an empty list."""
        if self._nvml is not None:
            self._nvml.close()
        self._nvml, self._handles = None, []


def _read_used_memory(nvml: Nvml, device: Any) -> Optional[float]:
    memory = nvml.memory(device)
    return None if memory is None else float(memory.used)


def _computing(nvml: Nvml, device: Any) -> Optional[float]:
    processes = nvml.processes(device)
    return None if processes is None else float(len(processes))


def _bits(nvml: Nvml, device: Any, mask: int) -> Optional[float]:
    reasons = nvml.throttle_reasons(device)
    return None if reasons is None else float(bool(reasons & mask))
