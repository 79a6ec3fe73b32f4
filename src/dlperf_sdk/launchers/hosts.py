"""The base of launchers that are given their hosts: a list, or a file with one host per line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from dlperf_sdk.documents.reading import read_file
from dlperf_sdk.errors import DocumentError, SpecError, Unavailable
from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.launchers.agent_command import PlacementArguments
from dlperf_sdk.launchers.command_launcher import CommandLauncher
from dlperf_sdk.launchers.options import AgentOptions, flags, option
from dlperf_sdk.launchers.start_failures import explain_start_failure
from dlperf_sdk.worker.agent.placement import expand_hosts

_LONGEST_CONNECT = 30.0
"""Seconds for a host to accept a connection, where the deadline `start` leaves more."""
_NAME = r"[A-Za-z0-9][A-Za-z0-9._:-]*"
_HOST = re.compile(rf"(?=.{{1,253}}\Z)({_NAME}@)?{_NAME}")
"""A user or host that begins with a hyphen could be an option of ssh, and may name a program."""
_LARGEST_FILE = 4 * 1024 * 1024
"""Maximum size in bytes of a file of hosts: 100,000 of them have about 2 MB."""


def ssh_timeout(job: Job) -> tuple[str, str]:
    """Return the two words of ssh's option `-o ConnectTimeout=SECONDS`; without it, ssh waits for a host for minutes.

    The limit is half of the job's `start_timeout`, but at most 30 seconds.

    Args:
        job: The case, of which `start_timeout` is used.
    """
    return "-o", f"ConnectTimeout={max(1, int(min(_LONGEST_CONNECT, job.start_timeout / 2)))}"


@frozen
class HostOptions(AgentOptions):
    """Options of a launcher whose user names the hosts."""

    hosts: str = option("The nodes, in order: a list with commas; n[1-4] for n1 to n4.")
    hostfile: str = option(
        "A file with a host per line instead; what follows the name is left out.", reads=True
    )
    launcher_flags: str = flags("More arguments for ssh or mpirun.")

    def placement(self, node: str, hosts: list[str]) -> PlacementArguments:
        """Return the arguments of one node's agent.

        The arguments contain only the first two hosts, each without the user to log in as: a command line with
        thousands of hosts would be too long. All agents connect to the agent of the first host. If that host has
        several addresses, its agent announces the one on the network to the second host.

        Args:
            node: The node's number in digits, or `$NAME` of the environment variable that holds it.
            hosts: All hosts in the order of the nodes, such as `user@n1`.
        """
        names = ",".join(host.rpartition("@")[2] for host in hosts[:2])
        return PlacementArguments(node, names, self.interface, self.ports)

    def select_hosts(self, nodes: int) -> list[str]:
        """Return the first `nodes` hosts of `hosts` or `hostfile`, as the user wrote them, such as `user@n1`.

        Raises:
            Unavailable: There are fewer than `nodes` hosts, a host is invalid or named twice, or the file cannot be
                read.
        """
        listed = []
        for position, name in self._listed():
            if not _HOST.fullmatch(name):
                raise Unavailable(f"{position}{name[:100]!r} is not a name or address of a host.")
            listed.append(name)
        if len(listed) < nodes:
            raise Unavailable(
                f"The case needs {nodes} nodes, and the hosts given are {', '.join(listed) or 'none'}. Name them with "
                "--set hosts=n1,n2 or --set hostfile=FILE."
            )
        selected = listed[:nodes]
        duplicate = next((name for name, count in Counter(selected).items() if count > 1), None)
        if duplicate is not None:
            raise Unavailable(
                f"The host {duplicate} is named twice, and each node must be a separate machine. Name each host once; "
                "for several nodes on this one machine use the launcher 'local'."
            )
        return selected

    def list_hosts(self) -> list[str]:
        """Return all hosts of the option `hosts`, or else of the file `hostfile`, as the user wrote them.

        The list is empty if neither option is set.

        Raises:
            Unavailable: A host is invalid or named twice, or the file cannot be read.
        """
        return self.select_hosts(len(self._listed()))

    def _listed(self) -> list[tuple[str, str]]:
        """Return each host after its position `FILE:LINE: `, which is empty for one from the list."""
        try:
            if self.hosts:
                return [("", name) for name in expand_hosts(self.hosts)]
            if not self.hostfile:
                return []
            data = read_file(Path(self.hostfile).expanduser(), _LARGEST_FILE)
            lines = data.decode("utf-8").splitlines()
        except DocumentError as error:
            raise Unavailable(f"The hosts file {error}") from error
        except UnicodeDecodeError as error:
            raise Unavailable(f"The hosts file {self.hostfile} is not a text file: {error}.") from error
        except (ValueError, RuntimeError) as error:  # no list of hosts, or `~user` of an unknown user
            raise Unavailable(f"The hosts cannot be read: {error}.") from error
        return [
            (f"{self.hostfile}:{number}: ", line.split()[0])
            for number, line in enumerate(lines, 1)
            if line.strip() and not line.lstrip().startswith("#")
        ]


class HostLauncher(CommandLauncher):
    """A launcher that starts its agents on the hosts that its options name."""

    Options = HostOptions

    def validate_options(self, nodes: int, options: HostOptions) -> None:
        """Check that there are enough hosts for the nodes, and that their names are valid.

        Args:
            nodes: Number of nodes.
            options: The launcher's options.

        Raises:
            SpecError: There are too few hosts, a host is invalid or named twice, or the file cannot be read.
        """
        try:
            options.select_hosts(nodes)
        except Unavailable as error:
            raise SpecError(str(error)) from error

    def place_on(self, host: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of the options in which `host` is the only host, and which has no `hostfile`.

        Args:
            host: Name or address of the node.
            options: The options that the user set, name → value.
        """
        return {**{name: value for name, value in options.items() if name != "hostfile"}, "hosts": host}

    def explain_failures(self, job: Job, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the lines of agent 0's stream; if the Python of agent 0 cannot be started, add an event that says so.

        The event is `ended`, with a failure of the kind `unavailable`. `job` is the case, whose option `agent_python`
        names the Python, and `lines` has the lines of the stream.
        """
        return explain_start_failure(lines, job.options.agent_python, node=0)
