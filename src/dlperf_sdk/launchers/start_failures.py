"""Find the reason why agents did not start in the output of shells, container runners, ssh and mpirun."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from dlperf_sdk.launchers.stream_events import ended_event, is_lost_node, parse_event

_REASON = (
    r"(no such file or directory|(?:command )?not found|permission denied|exec format error|is a directory"
    r"|not a directory|cannot execute[^\n]*)"
)
BEFORE_AGENTS = ("case", "waiting", "diagnostics")
"""Events that come before those of agents: a batch job's first one, those of a queue, and the end of standard
error."""


def explain_start_failure(
    lines: Iterator[bytes], python: str, hosts: Sequence[str] = (), node: int | None = None
) -> Iterator[bytes]:
    """Yield the lines of agent 0's stream; if no agent started, add an event `ended` with the reason.

    The reason comes from the standard error in the event `diagnostics`. If it shows no reason, nothing is added. If an
    event `ended` reports a lost node, and its message shows that `python` is missing there, the event is replaced by
    one that says so.

    Args:
        lines: The lines of the stream.
        python: The interpreter of the agents, as their command names it.
        hosts: The hosts, in the order of the nodes, of a launcher that starts all agents or none; empty for others.
        node: Number of the node that the standard error comes from; None if it comes from all nodes.
    """
    output, is_started = "", False
    for line in lines:
        if is_lost_node(line):
            failure = json.loads(line)["failure"]
            yield _python_failure(python, failure["message"], failure["node"]) or line
            return
        event = None if is_started else parse_event(line)
        if event is not None:
            is_started = event["event"] not in BEFORE_AGENTS
            output = str(event.get("text")) if event["event"] == "diagnostics" else output
        yield line
    if not is_started:
        last = _python_failure(python, output, node) or _host_failure(hosts, output)
        if last is not None:
            yield last


def _python_failure(python: str, output: str, node: int | None) -> bytes | None:
    """Return the stream's last event, if the output shows an interpreter that cannot be run."""
    reason = find_program_failure(python, output)
    if reason is None:
        return None
    location = "the nodes, or on some of them" if node is None else f"node {node}"
    message = (
        f"{python}, which runs the agents, cannot be started on {location}: {reason}. Name a Python 3.7 or later that "
        "is on every node: --set agent_python=PATH."
    )
    return ended_event("unavailable", message, node)


def find_program_failure(program: str, output: str) -> str | None:
    """Return why a program could not be run, such as `Permission denied`, from the output of a shell or a launcher.

    Args:
        program: The program, as the command names it.
        output: What the shell or the launcher wrote to standard error.

    Returns:
        The reason, a phrase; None if the output does not say that the program could not be run.
    """
    name = rf"(?<![\w./-])['\"`‘]?{re.escape(program)}['\"`’]?(?![\w./-])"
    for pattern in (
        rf"{name}: {_REASON}",
        rf"{_REASON}: {name}",
        rf"executable file {name} {_REASON}",
    ):
        match = re.search(pattern, output, re.IGNORECASE)
        if match:
            return match[1].strip()
    # mpirun's form: a line of its own, below a paragraph that names no program.
    return "mpirun finds no such program" if re.search(rf"(?m)^Executable: +{name}\s*$", output) else None


def _host_failure(hosts: Sequence[str], output: str) -> bytes | None:
    """Return the stream's last event, if one of several hosts was not reached."""
    if len(hosts) < 2:
        return None
    node = find_unreached_host(hosts, output)
    tail = f" Last output: {output}" if output else ""
    if node is None:
        message = (
            f"No agent was started on any of the hosts {', '.join(hosts)}: all of them are started, or none. Check "
            f"that each can be reached from here, and its name.{tail}"
        )
    else:
        message = (
            f"The agent of node {node} ({hosts[node]}) was not started, and so no other was. Check the host: its name, "
            f"and that it can be reached from here.{tail}"
        )
    return ended_event("lost-node", message, node)


def find_unreached_host(hosts: Sequence[str], output: str) -> int | None:
    """Return the index of the first host that ssh names in an error message; None if it names none.

    A host that OpenMPI names as `target node:` does not count: OpenMPI could not notify it of the failure.

    Args:
        hosts: Names of the hosts, perhaps with a user (`user@n1`).
        output: What ssh or mpirun wrote to standard error.
    """
    for line in output.splitlines():
        if re.search(r"ssh: |permission denied|host key", line, re.IGNORECASE):
            for node, host in enumerate(hosts):
                if re.search(rf"(?<![\w.-]){re.escape(host.rpartition('@')[2])}(?![\w.-]*\w)", line):
                    return node
    return None
