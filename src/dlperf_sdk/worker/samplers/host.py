"""Sample the node's processors and memory through Linux's /proc."""

import os
from typing import Callable, List, Optional, Sequence, Tuple

_Sample = Tuple[str, str, str, str, float]


class Sampler:
    """Sampler of processor times, load and memory in use.

    `cpu-busy`, `cpu-idle` and `cpu-steal` are seconds, summed over all processors. The busy share over a window is
    the growth of `cpu-busy` over the growth of all three. Steal is time in which the hypervisor ran other machines
    although this one had work to do. `load` is the mean over one minute. `memory` is the memory in use in bytes: the
    total without what is available.

    Args:
        devices: Not used.
        root: Where procfs is mounted.
        ticks: Clock ticks per second; None for the system's value.
    """

    def __init__(self, devices: Sequence[str], root: str = "/proc", ticks: Optional[int] = None) -> None:
        self._root = root
        self._ticks = ticks or os.sysconf("SC_CLK_TCK")

    def open(self) -> bool:
        """Return True if this node's processors, load or memory can be read."""
        return bool(self.sample())

    def sample(self) -> List[_Sample]:
        """Return one sample of each series that can be read: (name, device, unit, kind, value).

        The device is always `host`. `cpu-busy`, `cpu-idle` and `cpu-steal` have the kind `counter` and the unit `s`.
        `load`, with the unit `1`, and `memory`, with the unit `B`, have the kind `gauge`.
        """
        sampled: List[_Sample] = []
        readers: List[Callable[[], List[_Sample]]] = [self._processors, self._load, self._memory]
        for read in readers:
            try:
                sampled += read()
            except (OSError, ValueError, IndexError, KeyError):
                continue  # missing, or not in Linux's format: left out
        return sampled

    def close(self) -> None:
        """Do nothing, since `open` opens no file."""

    def _processors(self) -> List[_Sample]:
        # user nice system idle iowait irq softirq steal; guest time is contained in user: man 5 proc_stat.
        fields = self._lines("stat")[0].split()
        if fields[0] != "cpu":
            raise ValueError("no line for all processors")
        user, nice, system, idle, iowait, irq, softirq, steal = (
            int(ticks) / self._ticks for ticks in fields[1:9]
        )
        seconds = {"busy": user + nice + system + irq + softirq, "idle": idle + iowait, "steal": steal}
        return [("cpu-" + state, "host", "s", "counter", value) for state, value in seconds.items()]

    def _load(self) -> List[_Sample]:
        return [("load", "host", "1", "gauge", float(self._lines("loadavg")[0].split()[0]))]

    def _memory(self) -> List[_Sample]:
        pairs = dict(line.split(":", 1) for line in self._lines("meminfo") if ":" in line)
        kibibytes = int(pairs["MemTotal"].split()[0]) - int(pairs["MemAvailable"].split()[0])
        return [("memory", "host", "B", "gauge", kibibytes * 1024.0)]

    def _lines(self, name: str) -> List[str]:
        with open(os.path.join(self._root, name), encoding="ascii", errors="replace") as file:
            return file.read().splitlines()
