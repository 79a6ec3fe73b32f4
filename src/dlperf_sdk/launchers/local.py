"""The launcher for this machine: one agent per node, all of them here, over loopback."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.launchers.agent_command import PlacementArguments, agent_command
from dlperf_sdk.launchers.command_launcher import CommandLauncher
from dlperf_sdk.spec.values import LOCAL

_MAX_WORKERS_PER_CORE = 32
"""A handful per core is good for a trial; more is a typing error, and exhausts the machine."""


_ACCELERATORS = {"cuda": "CUDA device", "npu": "NPU"}
"""Kind of device that is counted on this machine → the term for one device in messages."""
_NPU_FOLDER, _NPU_FILES = Path("/dev"), "davinci[0-9]*"
"""Files of Huawei's driver, one per NPU. A container has those of its own NPUs."""


class Local(CommandLauncher):
    """The default launcher. The agents of several nodes share this machine's cores and devices."""

    name = LOCAL

    def unavailable_reason(self, nodes: int, devices_per_node: int, device: str) -> str | None:
        """Return a sentence if this machine has too few GPUs or NPUs, or too few cores for other devices; else None.

        A core may have up to 32 workers.

        Args:
            nodes: Number of nodes, all of them on this machine.
            devices_per_node: Number of devices on each node.
            device: Kind of the devices.
        """
        shape, workers = f"{nodes}n{devices_per_node}d", nodes * devices_per_node
        alternative = f"place the case on other machines: {shape}@LAUNCHER."
        if device in _ACCELERATORS:
            term, available = _ACCELERATORS[device], _count_accelerators(device)
            if workers <= available:
                return None
            return (
                f"{shape} needs {workers} {term}{'s' if workers > 1 else ''}, and this machine has "
                f"{available or 'none'}. Ask for fewer, for --device cpu, or {alternative}"
            )
        cores = len(os.sched_getaffinity(0))
        if workers <= _MAX_WORKERS_PER_CORE * cores:
            return None
        return (
            f"{shape} needs {workers} workers, and this machine has {cores} cores; the limit is "
            f"{_MAX_WORKERS_PER_CORE} workers per core. Ask for fewer, or {alternative}"
        )

    def agent_commands(self, job: Job) -> list[tuple[str, ...]]:
        """Return the command of each node's agent, as its words, in the order of the nodes.

        The Python of this process runs the agents or, for a case with a container, the container's `python3`. `job` is
        the case and its bundle, which need not exist.
        """
        python = "python3" if job.prefix else sys.executable
        return [
            agent_command(job, python, PlacementArguments(str(node), "127.0.0.1"))
            for node in range(job.nodes)
        ]


def _count_accelerators(kind: str) -> int:
    """Return the number of this machine's devices of a kind in `_ACCELERATORS`."""
    if kind == "npu":
        return len(list(_NPU_FOLDER.glob(_NPU_FILES)))
    from dlperf_sdk.worker.gpu.gpus import list_gpus

    return len(list_gpus())
