"""This machine: one agent per node, all of them here, over loopback."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from dlperf_sdk.errors import Unavailable
from dlperf_sdk.interfaces.topology import Job, Topology

_PER_CORE = 32
"""Workers that a core is shared by at most. A handful is good for trying things out; more is a slip of the pen, and
this machine would not survive it."""
_PATIENCE = 15.0
"""Seconds that an agent is given to end its workers; they get three of them."""


class Local(Topology):
    """The embedded default. Several nodes are several agents, which share this machine's cores and devices."""

    name = "local"

    def refuses(self, nodes: int, devices_per_node: int, device: str) -> str | None:
        """Why this machine cannot hold the case: it counts the GPUs."""
        if device != "cuda":
            return _too_many(nodes, devices_per_node)
        from dlperf_sdk.worker.gpus import list_gpus

        wanted, there = nodes * devices_per_node, len(list_gpus())
        if wanted <= there:
            return None
        return (
            f"{nodes}n{devices_per_node}d needs {wanted} CUDA device{'s' if wanted > 1 else ''}, and this machine has "
            f"{there or 'none'}. Ask for fewer, for --device cpu, or place the case with an engine: "
            f"{nodes}n{devices_per_node}d@ENGINE."
        )

    def commands(self, job: Job) -> tuple[tuple[str, ...], ...]:
        return tuple(
            _command(job, node, "127.0.0.1:PORT" if node else "127.0.0.1:0") for node in range(job.nodes)
        )

    @contextmanager
    def launch(self, job: Job) -> Iterator[Iterator[bytes]]:
        with tempfile.TemporaryFile() as diagnostics, contextlib.ExitStack() as agents:
            first = agents.enter_context(_agent(job, 0, "127.0.0.1:0", diagnostics))
            assert first.stdout is not None
            line = first.stdout.readline()
            try:
                heard = json.loads(line)
                address = f"{heard['host']}:{heard['port']}"
            except (ValueError, KeyError, TypeError):
                raise Unavailable(f"The agent on this machine did not start: {_said(diagnostics)}") from None
            for node in range(1, job.nodes):
                agents.enter_context(_agent(job, node, address, diagnostics))
            yield _stream(first.stdout, diagnostics)


def _too_many(nodes: int, devices_per_node: int) -> str | None:
    """Why so many processes, one per device without hardware of its own, are no benchmark."""
    cores = len(os.sched_getaffinity(0))
    if nodes * devices_per_node <= _PER_CORE * cores:
        return None
    return (
        f"{nodes}n{devices_per_node}d are {nodes * devices_per_node} workers, and this machine has {cores} cores: "
        f"it takes {_PER_CORE} per core at most. Ask for fewer, or place the case with an engine: "
        f"{nodes}n{devices_per_node}d@ENGINE."
    )


def _command(job: Job, node: int, coordinator: str) -> tuple[str, ...]:
    return (
        sys.executable,
        "-I",
        str(job.bundle),
        "agent",
        "--node",
        str(node),
        "--coordinator",
        coordinator,
        "--tether",
    )


@contextmanager
def _agent(
    job: Job, node: int, coordinator: str, diagnostics: IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    """An agent that ends with the context, or with this process, whatever comes first: its standard input tells it."""
    agent = subprocess.Popen(
        _command(job, node, coordinator),
        env={**os.environ, **job.variables},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if node == 0 else subprocess.DEVNULL,
        stderr=diagnostics,
        start_new_session=True,  # a Ctrl-C is the controller's to handle
    )
    try:
        yield agent
    finally:
        assert agent.stdin is not None
        agent.stdin.close()
        try:
            agent.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            agent.kill()
            agent.wait()
        if agent.stdout is not None:
            agent.stdout.close()


def _stream(stdout: IO[bytes], diagnostics: IO[bytes]) -> Iterator[bytes]:
    yield from stdout
    said = _said(diagnostics)
    if said:
        yield json.dumps({"event": "diagnostics", "text": said}).encode()


def _said(diagnostics: IO[bytes]) -> str:
    """The end of what the agents wrote to standard error."""
    diagnostics.seek(0, os.SEEK_END)
    diagnostics.seek(max(0, diagnostics.tell() - 4000))
    return diagnostics.read().decode(errors="replace").strip()
