"""Sample the energy of processor packages and of their memory through Linux's powercap tree.

Since Linux 5.10 only root may read it. A counter that cannot be read is not sampled.
Source: Linux kernel documentation, Power Capping Framework.
"""

import glob
import os
from typing import Dict, List, Optional, Sequence, Tuple


class Sampler:
    """Sampler of the `energy` of each processor package, and of each package's DRAM.

    The counters start from 0 J at `open`. The zones `core`, `uncore` and `psys` are not sampled, since they would
    count energy twice: the first two are parts of a package, and the third contains it.

    Args:
        devices: Not used.
        root: Where sysfs is mounted.
    """

    def __init__(self, devices: Sequence[str], root: str = "/sys") -> None:
        self._root = root
        self._zones: Dict[str, str] = {}
        self._range: Dict[str, int] = {}
        self._last: Dict[str, int] = {}
        self._total: Dict[str, int] = {}

    def open(self) -> bool:
        """Find the packages and DRAM zones whose energy counters can be read; return True if there are any."""
        for path in sorted(glob.glob(os.path.join(self._root, "class/powercap/intel-rapl:*"))):
            name = _text(os.path.join(path, "name"))
            if name is None:
                continue
            if name == "dram":
                # `intel-rapl:1:0` lies in the package `intel-rapl:1`.
                name = "dram-" + os.path.basename(path).split(":")[1]
            elif not name.startswith("package-"):
                continue
            reading, span = _number(path, "energy_uj"), _number(path, "max_energy_range_uj")
            if reading is None or span is None:
                continue
            if name in self._zones:
                # Kernels before 5.4 give the dies of one package the same name.
                name += "-" + os.path.basename(path).split(":")[1]
            self._zones[name], self._range[name] = path, span
            self._last[name], self._total[name] = reading, 0
        return bool(self._zones)

    def sample(self) -> List[Tuple[str, str, str, str, float]]:
        """Return one sample of each zone that can be read: ("energy", zone, "J", "counter", joules).

        A zone is named `package-0`, `dram-0` and so on; the samples are sorted by the zone's name. The joules are those
        since `open`, also if the hardware's register has wrapped around. The list is empty unless `open` returned True.
        """
        sampled = []
        for name in sorted(self._zones):
            reading = _number(self._zones[name], "energy_uj")
            if reading is None:
                continue
            increase = reading - self._last[name]
            # The register wraps after minutes at full load, so between two samples at most once.
            self._total[name] += increase if increase >= 0 else increase + self._range[name]
            self._last[name] = reading
            sampled.append(("energy", name, "J", "counter", self._total[name] / 1e6))
        return sampled

    def close(self) -> None:
        """Forget the zones that `open` found; afterwards `sample` returns an empty list."""
        self._zones.clear()


def _text(path: str) -> Optional[str]:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


def _number(zone: str, name: str) -> Optional[int]:
    text = _text(os.path.join(zone, name))
    return int(text) if text is not None and text.isdigit() else None
