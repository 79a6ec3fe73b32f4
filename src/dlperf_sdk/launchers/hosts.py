"""The hosts of the launchers that are told them: a list, or a file with one per line."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.errors import Unavailable
from dlperf_sdk.launchers.delivery import Rendezvous
from dlperf_sdk.worker.agent.placement import expand
from dlperf_sdk.worker.network import port_range

_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,252}")
"""What begins with a hyphen would be an option of ssh, and may name a program."""
INTERFACE = "Network interface of the workers, instead of the one between the hosts."
PORTS = "FIRST-LAST: the only ports that agents listen on and hand to workers; any free ones otherwise."


def checked_ports(_: Any, attribute: Any, value: str) -> None:
    """What attrs holds the option `ports` to. Raises ValueError."""
    port_range(value)


def checked_flags(_: Any, attribute: Any, value: str) -> None:
    """What attrs holds an option to that is more arguments for a program. Raises ValueError or TypeError."""
    if not isinstance(value, str):  # of None, shlex would read standard input
        raise TypeError(f"{attribute.name} is {value!r}, and no text; leave it out where there is none")
    try:
        shlex.split(value)
    except ValueError as error:
        raise ValueError(
            f"{attribute.name} is {value[:100]!r}, which a shell would not read to its end either ({error}); close "
            "each quotation that is opened, or write \\ before the mark"
        ) from error


@frozen
class HostOptions:
    """Options of a launcher that is told its hosts."""

    hosts: str = attrs.field(
        default="", metadata={"help": "The nodes, in order: a list with commas; n[1-4] for n1 to n4."}
    )
    hostfile: str = attrs.field(
        default="",
        metadata={
            "help": "A file with a host per line instead; what follows the name is left out.",
            "reads": True,
        },
    )
    interface: str = attrs.field(default="", metadata={"help": INTERFACE})
    ports: str = attrs.field(default="", validator=checked_ports, metadata={"help": PORTS})
    agent_python: str = attrs.field(
        default="python3",
        metadata={"help": "Python 3.7 or later that runs the agent on every node.", "executes": True},
    )
    launcher_flags: str = attrs.field(
        default="",
        validator=checked_flags,
        metadata={"help": "More arguments for ssh or mpirun.", "executes": True},
    )

    def place(self, node: str, hosts: list[str]) -> Rendezvous:
        """What the agent of a node is told: the others' hosts are names here, not whom to log in as."""
        names = ",".join(host.rpartition("@")[2] for host in hosts)
        return Rendezvous(node, names, self.interface, self.ports)

    def mistake(self, nodes: int) -> str | None:
        """What is wrong with the hosts for so many nodes, in a sentence; None if nothing is."""
        try:
            self.chosen(nodes)
        except Unavailable as error:
            return str(error)
        return None

    def chosen(self, nodes: int) -> list[str]:
        """The first so many hosts.

        Raises:
            Unavailable: there are not so many, one is no host or there twice, or the file cannot be read.
        """
        listed = []
        for where, name in self._listed():
            if not _HOST.fullmatch(name):
                raise Unavailable(f"{where}{name[:100]!r} is no name or address of a host.")
            listed.append(name)
        if len(listed) < nodes:
            raise Unavailable(
                f"{nodes} nodes are asked for, and the hosts given are {', '.join(listed) or 'none'}. Name them with "
                "--set hosts=n1,n2 or --set hostfile=FILE."
            )
        taken = listed[:nodes]
        twice = next((name for name in taken if taken.count(name) > 1), None)
        if twice is not None:
            raise Unavailable(
                f"The host {twice} is named twice, and a node is a machine of its own. Name each once; several nodes "
                "on this one machine are what the launcher 'local' is for."
            )
        return taken

    def _listed(self) -> list[tuple[str, str]]:
        """Each name behind `FILE:LINE: `, as far as it comes from a file. Raises Unavailable."""
        try:
            if self.hosts:
                return [("", name) for name in expand(self.hosts)]
            if not self.hostfile:
                return []
            lines = Path(self.hostfile).expanduser().read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise Unavailable(f"The hosts file {self.hostfile} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise Unavailable(f"The hosts file {self.hostfile} is no text: {error}.") from error
        except (ValueError, RuntimeError) as error:  # no list; or a home that nobody has
            raise Unavailable(f"The hosts cannot be read: {error}.") from error
        return [
            (f"{self.hostfile}:{number}: ", line.split()[0])
            for number, line in enumerate(lines, 1)
            if line.strip() and not line.lstrip().startswith("#")
        ]
