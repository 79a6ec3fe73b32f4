"""Describe a node's hardware and software."""

import os
import platform
import re
from typing import Any, Dict, Iterator, List, Optional, Tuple

from dlperf_sdk.worker.agent.affinity import parse_cpu_list
from dlperf_sdk.worker.gpu import gpus
from dlperf_sdk.worker.gpu.nvml import LIBRARY

_UNLIMITED = 2**60
"""Version 1 of cgroups writes "no memory limit" as a number near 2^63."""


def describe(proc: str = "/proc", sys: str = "/sys", library: str = LIBRARY) -> Dict[str, Any]:
    """Return this node's facts as JSON values. Facts that cannot be read are left out.

    The facts are:

    - `host`, `boot_id`, `kernel` and `architecture`: texts;
    - `cpu`: `model`; the numbers of `logical` and of `usable` processors, of `sockets` and of `cores`; the frequency
      `governor`; `turbo`, true if it is enabled; and `limit`, the result of `cpu_limit`;
    - `numa_nodes`: their number;
    - `memory`, the machine's, and `memory_limit`, the result of the function of this name: bytes;
    - `load`: the means over 1, 5 and 15 minutes;
    - `virtualisation`: `hypervisor`, true on a virtual machine; `machine`, its maker and product; and `container`,
      `docker` or `podman`;
    - `gpus`: what `gpus.describe` returns for each GPU.

    Args:
        proc: Where procfs is mounted.
        sys: Where sysfs is mounted.
        library: The name or path of NVML.
    """
    return _known(
        {
            "host": platform.node() or None,
            "boot_id": _text(proc, "sys/kernel/random/boot_id"),
            "kernel": platform.release() or None,
            "architecture": platform.machine() or None,
            "cpu": _cpu(proc, sys),
            "numa_nodes": _numa_nodes(sys),
            "memory": _memory(proc),
            "memory_limit": memory_limit(proc, sys),
            "load": _load(proc),
            "virtualisation": _virtualisation(proc, sys),
            "gpus": [gpus.describe(gpu) for gpu in gpus.list_gpus(library, sys)] or None,
        }
    )


def cpu_limit(proc: str = "/proc", sys: str = "/sys") -> Optional[float]:
    """Return the lowest CPU limit of this process's control groups, in processors; None without a limit.

    Args:
        proc: Where procfs is mounted.
        sys: Where sysfs is mounted.
    """
    limits = []
    for folder in _groups(proc, sys, "cpu"):
        quota, _, period = (_text(folder, "cpu.max") or "").partition(" ")
        if not quota:
            quota, period = _text(folder, "cpu.cfs_quota_us") or "", _text(folder, "cpu.cfs_period_us") or ""
        if quota.isdigit() and period.isdigit() and int(period):
            limits.append(int(quota) / int(period))
    return min(limits) if limits else None


def memory_limit(proc: str = "/proc", sys: str = "/sys") -> Optional[int]:
    """Return the least memory limit of this process's control groups, in bytes; None without a limit.

    Args:
        proc: Where procfs is mounted.
        sys: Where sysfs is mounted.
    """
    limits = []
    for folder in _groups(proc, sys, "memory"):
        text = _text(folder, "memory.max") or _text(folder, "memory.limit_in_bytes") or ""
        if text.isdigit() and int(text) < _UNLIMITED:
            limits.append(int(text))
    return min(limits) if limits else None


def _groups(proc: str, sys: str, controller: str) -> Iterator[str]:
    """Yield the folders of this process's control group for a controller, and of all groups around it."""
    for line in (_text(proc, "self/cgroup") or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            base = os.path.join(sys, "fs/cgroup")
        elif controller in controllers.split(","):
            base = os.path.join(sys, "fs/cgroup", controller)
        else:
            continue
        # In a container the path may be the host's, and only the root be visible; ".." names what lies
        # outside.
        parts = [part for part in path.split("/") if part and part != ".."]
        for length in range(len(parts), -1, -1):
            yield os.path.join(base, *parts[:length])


def _cpu(proc: str, sys: str) -> Optional[Dict[str, Any]]:
    folder = os.path.join(sys, "devices/system/cpu")
    online = sorted(parse_cpu_list(_text(folder, "online") or ""))
    places = [_place(folder, cpu) for cpu in online]
    is_complete = bool(places) and None not in places
    packages = {place[0] for place in places if place is not None}
    model = re.search(
        r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", _text(proc, "cpuinfo") or "", re.MULTILINE
    )
    return _known(
        {
            "model": model.group(1).strip() if model else None,
            "logical": os.cpu_count(),
            "usable": len(os.sched_getaffinity(0)),
            "sockets": len(packages) if is_complete else None,
            "cores": len(set(places)) if is_complete else None,
            "governor": _text(folder, "cpu0/cpufreq/scaling_governor"),
            "turbo": _turbo(folder),
            "limit": cpu_limit(proc, sys),
        }
    )


def _place(folder: str, cpu: int) -> Optional[Tuple[str, str]]:
    topology = os.path.join(folder, "cpu%d/topology" % cpu)
    package, core = _text(topology, "physical_package_id"), _text(topology, "core_id")
    if package is None or core is None:
        return None
    # Dies of one package count their cores separately.
    return package, "%s/%s" % (_text(topology, "die_id") or "0", core)


def _turbo(folder: str) -> Optional[bool]:
    disabled, boost = _text(folder, "intel_pstate/no_turbo"), _text(folder, "cpufreq/boost")
    if disabled is not None:
        return disabled == "0"
    return None if boost is None else boost == "1"


def _numa_nodes(sys: str) -> Optional[int]:
    return len(parse_cpu_list(_text(sys, "devices/system/node/online") or "")) or None


def _memory(proc: str) -> Optional[int]:
    total = re.search(r"^MemTotal:\s*(\d+) kB", _text(proc, "meminfo") or "", re.MULTILINE)
    return int(total.group(1)) * 1024 if total else None


def _load(proc: str) -> Optional[List[float]]:
    try:
        return [float(value) for value in (_text(proc, "loadavg") or "").split()[:3]] or None
    except ValueError:
        return None


def _virtualisation(proc: str, sys: str) -> Optional[Dict[str, Any]]:
    flags = re.search(r"^flags\s*:(.*)$", _text(proc, "cpuinfo") or "", re.MULTILINE)
    maker, product = _text(sys, "class/dmi/id/sys_vendor"), _text(sys, "class/dmi/id/product_name")
    container = None
    for name, mark in (("docker", "/.dockerenv"), ("podman", "/run/.containerenv")):
        if os.path.exists(mark):
            container = name
    return _known(
        {
            "hypervisor": "hypervisor" in flags.group(1).split() if flags else None,
            "machine": " ".join(part for part in (maker, product) if part) or None,
            "container": container,
        }
    )


def _known(facts: Dict[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None and value != {}}


def _text(folder: str, name: str) -> Optional[str]:
    """Return a file's content without surrounding white space; None if it cannot be read or is empty."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            return file.read().strip() or None
    except OSError:
        return None
