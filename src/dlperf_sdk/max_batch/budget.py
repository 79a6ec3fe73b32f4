"""Estimate the memory that one process may take, as far as it is known before the first probe."""

from __future__ import annotations

import resource
from pathlib import Path

import psutil

from dlperf_sdk.planning.plan import Plan
from dlperf_sdk.worker.gpu.gpus import list_gpus

HEADROOM = 0.9
"""Share of the free memory that a search may take: the controller and the agents need some, too."""


def process_memory(plan: Plan) -> int | None:
    """Return the bytes of memory that one process of a case may take on this machine.

    For `cuda` it is the memory of the smallest GPU. For `cpu` it is the case's `memory_limit` or, if that is None, what
    `host_memory` returns for one process per device of the case.

    Returns:
        The bytes; None for another kind of device, or if the memory of the GPUs is unknown.
    """
    spec = plan.spec
    if plan.device == "cuda":
        return min((gpu.memory for gpu in list_gpus() if gpu.memory), default=None)
    if plan.device != "cpu":
        return None
    if spec.memory_limit is not None:
        return spec.memory_limit
    return host_memory(spec.topology.devices)


def host_memory(processes: int) -> int:
    """Return the bytes of this machine's memory that each of several equal processes may use, at least 1.

    It is the smallest of: the process's share of the free memory, its share of the memory that each control group has
    left, and the soft limits RLIMIT_AS and RLIMIT_DATA. Only the fraction `HEADROOM` (0.9) of the free or left memory
    is shared out.

    Args:
        processes: Number of processes that run at the same time.
    """
    limits = [psutil.virtual_memory().available * HEADROOM / processes]
    limits += [(limit - used) * HEADROOM / processes for limit, used in _cgroups()]
    for limit_kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        soft = resource.getrlimit(limit_kind)[0]
        if soft != resource.RLIM_INFINITY:
            limits.append(float(soft))
    return max(1, int(min(limits)))


def _cgroups() -> list[tuple[int, int]]:
    """Return limit and usage of every cgroup (version 2) above this process that has a limit."""
    limits = []
    try:
        name = Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()[-1].rpartition(":")[2]
    except (OSError, IndexError):
        return []
    folder = Path("/sys/fs/cgroup") / name.lstrip("/")
    for parent in (folder, *folder.parents):
        if not str(parent).startswith("/sys/fs/cgroup"):
            break
        try:
            maximum, used = ((parent / f"memory.{limit}").read_text().strip() for limit in ("max", "current"))
        except OSError:
            continue
        if maximum.isdecimal():
            limits.append((int(maximum), int(used)))
    return limits
