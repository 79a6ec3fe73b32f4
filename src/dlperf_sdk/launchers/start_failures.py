"""Why agents were not started, out of the words of shells, ssh, mpirun and srun: what is missing, and where."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from dlperf_sdk.launchers import delivery

_REASON = (
    r"(no such file or directory|(?:command )?not found|permission denied|exec format error|is a directory"
    r"|not a directory|cannot execute[^\n]*)"
)
_BEFORE_AGENTS = (b'"event": "case"', b'"event": "waiting"', b'"event": "diagnostics"')
"""What is in the lines of a stream that no agent has written."""


def explained(lines: Iterator[bytes], python: str, hosts: Sequence[str] = ()) -> Iterator[bytes]:
    """The lines of a stream; where it ends for want of an agent, and somebody has said why, its last line tells that.

    `python` is what should have run the agents; `hosts` are the nodes of a launcher that starts all agents or none.
    """
    said, heard = "", False
    for line in lines:
        if delivery.is_lost(line):
            failure = json.loads(line)["failure"]
            yield _without_python(python, failure["message"], failure["node"]) or line
            return
        if b'"event": "diagnostics"' in line:
            said = json.loads(line)["text"]
        heard = heard or (b'"event"' in line and not any(mark in line for mark in _BEFORE_AGENTS))
        yield line
    if not heard:
        found = _without_python(python, said, None) or _without_host(hosts, said)
        if found is not None:
            yield found


def _without_python(python: str, said: str, node: int | None) -> bytes | None:
    """The stream's last event, where the words tell of an interpreter that cannot be run."""
    reason = missing(python, said)
    if reason is None:
        return None
    where = "the nodes, or on some of them" if node is None else f"node {node}"
    message = (
        f"{python}, which runs the agents, cannot be started on {where}: {reason}. Name a Python 3.7 or later that is "
        "on every node: --set agent_python=PATH."
    )
    return delivery.ended("unavailable", message, node)


def missing(program: str, said: str) -> str | None:
    """Why a program could not be run, as a shell, a container's runner, srun or mpirun says it; None if they do not."""
    name = rf"(?<![\w./-])['\"`‘]?{re.escape(program)}['\"`’]?(?![\w./-])"
    for pattern in (
        rf"{name}: {_REASON}",
        rf"{_REASON}: {name}",
        rf"executable file {name} {_REASON}",
    ):
        found = re.search(pattern, said, re.IGNORECASE)
        if found:
            return found[1].strip()
    # mpirun's form: a line of its own, below a paragraph that names no program.
    return "mpirun finds no such program" if re.search(rf"(?m)^Executable: +{name}\s*$", said) else None


def _without_host(hosts: Sequence[str], said: str) -> bytes | None:
    """The stream's last event, where one of several hosts was not reached."""
    if len(hosts) < 2:
        return None
    node = unreached(hosts, said)
    told = f" What was said last: {said}" if said else ""
    if node is None:
        message = (
            f"No agent was started on any of the hosts {', '.join(hosts)}: all of them are started, or none. Check "
            f"that each can be reached from here, and its name.{told}"
        )
    else:
        message = (
            f"The agent of node {node} ({hosts[node]}) was not started, and so no other was. Check the host: its name, "
            f"and that it can be reached from here.{told}"
        )
    return delivery.ended("lost-node", message, node)


def unreached(hosts: Sequence[str], said: str) -> int | None:
    """The first of the hosts that a remote shell complains of by its name; None if it names none.

    OpenMPI's own `target node:` is another's: the one that it could no longer tell of the failure.
    """
    for line in said.splitlines():
        if re.search(r"ssh: |permission denied|host key", line, re.IGNORECASE):
            for node, host in enumerate(hosts):
                if re.search(rf"(?<![\w.-]){re.escape(host.rpartition('@')[2])}(?![\w.-]*\w)", line):
                    return node
    return None
