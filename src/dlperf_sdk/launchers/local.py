"""This machine: one agent per node, all of them here, over loopback."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from dlperf_sdk.interfaces.topology import Job, Topology
from dlperf_sdk.launchers import delivery

_PER_CORE = 32
"""Workers that a core is shared by at most. A handful is good for trying things out; more is a slip of the pen, and
this machine would not survive it."""


class Local(Topology):
    """The embedded default. Several nodes are several agents, which share this machine's cores and devices."""

    name = "local"

    def refuses(self, nodes: int, devices_per_node: int, device: str) -> str | None:
        """Why this machine cannot hold the case: it counts the GPUs."""
        if device != "cuda":
            return _too_many(nodes, devices_per_node)
        from dlperf_sdk.worker.gpu.gpus import list_gpus

        wanted, there = nodes * devices_per_node, len(list_gpus())
        if wanted <= there:
            return None
        return (
            f"{nodes}n{devices_per_node}d needs {wanted} CUDA device{'s' if wanted > 1 else ''}, and this machine has "
            f"{there or 'none'}. Ask for fewer, for --device cpu, or place the case with a launcher: "
            f"{nodes}n{devices_per_node}d@ENGINE."
        )

    def commands(self, job: Job) -> tuple[tuple[str, ...], ...]:
        return tuple(delivery.shown(command) for command in _commands(job))

    @contextmanager
    def launch(self, job: Job) -> Iterator[Iterator[bytes]]:
        with (
            tempfile.TemporaryFile() as diagnostics,
            delivery.running(_commands(job), job.bundle, diagnostics) as agents,
        ):
            yield delivery.lines_of(agents, diagnostics)


def _commands(job: Job) -> list[tuple[str, ...]]:
    """One command per node. In a container, its own Python is the one that is there."""
    python = "python3" if job.prefix else sys.executable
    hosts = ",".join(["127.0.0.1"] * job.nodes)
    return [
        delivery.node_command(job, python, delivery.Rendezvous(str(node), hosts)) for node in range(job.nodes)
    ]


def _too_many(nodes: int, devices_per_node: int) -> str | None:
    """Why so many processes, one per device without hardware of its own, are no benchmark."""
    cores = len(os.sched_getaffinity(0))
    if nodes * devices_per_node <= _PER_CORE * cores:
        return None
    return (
        f"{nodes}n{devices_per_node}d are {nodes * devices_per_node} workers, and this machine has {cores} cores: "
        f"it takes {_PER_CORE} per core at most. Ask for fewer, or place the case with a launcher: "
        f"{nodes}n{devices_per_node}d@ENGINE."
    )
