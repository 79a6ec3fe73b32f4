"""Machines that ssh reaches: one connection per node, which is the agent's tether as well."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from dlperf_sdk.interfaces.topology import Job, Topology
from dlperf_sdk.launchers import delivery, start_failures
from dlperf_sdk.launchers.hosts import HostOptions

_OPTIONS = ("-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")


class Ssh(Topology):
    """`2n8d@ssh`: keys and addresses are ssh's own configuration. Nothing needs to be installed there but Python."""

    name = "ssh"
    Options = HostOptions

    def refuses(self, nodes: int, devices_per_node: int, device: str) -> str | None:
        """Whether there is an ssh here at all."""
        if shutil.which("ssh"):
            return None
        return "There is no ssh here. Install it, or choose another launcher."

    def mistake(self, nodes: int, options: HostOptions) -> str | None:
        """Whether there are hosts enough, by their names."""
        return options.mistake(nodes)

    def commands(self, job: Job) -> tuple[tuple[str, ...], ...]:
        return tuple(delivery.shown((*command[:-1], shown)) for command, shown in _commands(job))

    @contextmanager
    def launch(self, job: Job) -> Iterator[Iterator[bytes]]:
        commands = [command for command, _ in _commands(job)]
        with (
            tempfile.TemporaryFile() as diagnostics,
            delivery.running(commands, job.bundle, diagnostics) as agents,
        ):
            yield start_failures.explained(delivery.lines_of(agents, diagnostics), job.options.agent_python)


def _commands(job: Job) -> list[tuple[tuple[str, ...], str]]:
    """Each node's command, and its last word, which a shell there takes apart again, for people."""
    options: HostOptions = job.options
    hosts = options.chosen(job.nodes)
    found = []
    for node, host in enumerate(hosts):
        remote = delivery.node_command(job, options.agent_python, options.place(str(node), hosts))
        command = ("ssh", *_OPTIONS, *shlex.split(options.launcher_flags), host, shlex.join(remote))
        found.append((command, shlex.join(delivery.shown(remote))))
    return found
