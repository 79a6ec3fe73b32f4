"""The launcher for machines that ssh reaches: one connection per node, which is also the agent's tether."""

from __future__ import annotations

import shlex
import shutil

from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.launchers.agent_command import agent_command
from dlperf_sdk.launchers.hosts import HostLauncher, HostOptions, ssh_timeout

_OPTIONS = ("-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")


class Ssh(HostLauncher):
    """The launcher behind `2n8d@ssh`. Keys and addresses come from ssh's own configuration.

    A node needs only a Python.
    """

    name = "ssh"

    def unavailable_reason(self, nodes: int, devices_per_node: int, device: str) -> str | None:
        """Return a sentence if there is no ssh on this machine; else None.

        Args:
            nodes: Number of nodes, which does not matter here.
            devices_per_node: Number of devices on each node, which does not matter here.
            device: Kind of the devices, which does not matter here.
        """
        if shutil.which("ssh"):
            return None
        return "There is no ssh here. Install it, or choose another launcher."

    def agent_commands(self, job: Job) -> list[tuple[str, ...]]:
        """Return one ssh command per node, as its words, in the order of the nodes.

        The last word is the agent's command, which a shell on the node splits again.

        Args:
            job: The case and its bundle, which need not exist.

        Raises:
            Unavailable: There are fewer hosts than nodes, a host is invalid or named twice, or the file of hosts cannot
                be read.
        """
        options: HostOptions = job.options
        hosts = options.select_hosts(job.nodes)
        # If an option is given twice, ssh takes the first, so the user's own timeout takes precedence.
        ssh = ("ssh", *_OPTIONS, *shlex.split(options.launcher_flags), *ssh_timeout(job))
        return [
            (
                *(*ssh, host),
                shlex.join(agent_command(job, options.agent_python, options.placement(str(node), hosts))),
            )
            for node, host in enumerate(hosts)
        ]
