"""Machines that ssh reaches: one connection per node, which is the agent's tether as well."""

from __future__ import annotations

import shlex
import shutil

from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.launchers.agent_command import agent_command
from dlperf_sdk.launchers.hosts import HostLauncher, HostOptions

_LONGEST_CONNECT = 30.0
"""Seconds for a host to accept a connection, where the deadline `start` leaves more."""
_OPTIONS = ("-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")


class Ssh(HostLauncher):
    """`2n8d@ssh`: keys and addresses are ssh's own configuration. The nodes need a Python, and nothing else."""

    name = "ssh"

    def unavailable_reason(self, nodes: int, devices_per_node: int, device: str) -> str | None:
        """Return the reason why there is no ssh; None if there is one."""
        if shutil.which("ssh"):
            return None
        return "There is no ssh here. Install it, or choose another launcher."

    def agent_commands(self, job: Job) -> list[tuple[str, ...]]:
        """Return the command of each node's agent; its last word is split again by a shell on the node."""
        options: HostOptions = job.options
        hosts = options.select_hosts(job.nodes)
        connect = max(1, int(min(_LONGEST_CONNECT, job.start_timeout / 2)))
        # Of an option that is given twice ssh takes the first: the user's own timeout wins.
        ssh = ("ssh", *_OPTIONS, *shlex.split(options.launcher_flags), "-o", f"ConnectTimeout={connect}")
        return [
            (
                *(*ssh, host),
                shlex.join(agent_command(job, options.agent_python, options.placement(str(node), hosts))),
            )
            for node, host in enumerate(hosts)
        ]
