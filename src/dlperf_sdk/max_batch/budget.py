"""How much memory one process may take, as far as it can be told beforehand."""

from __future__ import annotations

import resource
from pathlib import Path

import psutil

from dlperf_sdk.planning.plan import Plan
from dlperf_sdk.worker.gpu.gpus import list_gpus

HEADROOM = 0.9
"""Of the memory that is free, what a search may take: the controller and the agents need some, too."""


def process_memory(planned: Plan) -> int | None:
    """Bytes for one process of a case; None where only trying tells."""
    spec = planned.spec
    if planned.device == "cuda":
        return min((gpu.memory for gpu in list_gpus() if gpu.memory), default=None)
    if planned.device != "cpu":
        return None
    if spec.memory_limit is not None:
        return spec.memory_limit
    return host_memory(spec.topology.devices)


def host_memory(processes: int) -> int:
    """Bytes of this machine for each of so many processes, by rlimit, cgroup and what is free."""
    limits = [psutil.virtual_memory().available * HEADROOM / processes]
    limits += [(most - used) * HEADROOM / processes for most, used in _cgroups()]
    for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        soft = resource.getrlimit(which)[0]
        if soft != resource.RLIM_INFINITY:
            limits.append(float(soft))
    return max(1, int(min(limits)))


def _cgroups() -> list[tuple[int, int]]:
    """Of every cgroup above this process (version 2) that has a limit: the limit, and what is used."""
    found = []
    try:
        name = Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()[-1].rpartition(":")[2]
    except (OSError, IndexError):
        return []
    folder = Path("/sys/fs/cgroup") / name.lstrip("/")
    for each in (folder, *folder.parents):
        if not str(each).startswith("/sys/fs/cgroup"):
            break
        try:
            most, used = ((each / f"memory.{what}").read_text().strip() for what in ("max", "current"))
        except OSError:
            continue
        if most.isdecimal():
            found.append((int(most), int(used)))
    return found
