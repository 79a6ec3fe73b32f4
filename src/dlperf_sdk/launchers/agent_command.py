"""The command that starts an agent on a node; it is the same for every launcher."""

from __future__ import annotations

import ast
import json
import shlex
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from attrs import frozen

import dlperf_sdk
from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.launchers.stream_events import ended_event

_EXECUTE = 'shift; exec "$@"'
_TRY = """\
form=$1; shift
"$1" -I -S -c "" </dev/null >&2 || { printf "$form\\n" "$NODE" "$NODE"; cat >/dev/null; exit 1; }
exec "$@"
"""
"""A node that cannot start its agent reads on until its standard input ends: OpenMPI's daemon may crash otherwise."""


@cache
def bootstrap_program() -> str:
    """Return the source of `worker/agent/bootstrap.py`, which starts an agent, without its docstring."""
    path = Path(dlperf_sdk.__file__).parent / "worker" / "agent" / "bootstrap.py"
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return ast.unparse(ast.Module(tree.body[1:], []))


@frozen
class PlacementArguments:
    """An agent's arguments about its placement: each is a value, or `$NAME` of a variable that the launcher sets."""

    node: str
    """Number of the agent's node."""
    hosts: str
    """The first hosts of the case, separated by commas, or a list in brackets as `expand_hosts` reads it."""
    interface: str = ""
    """The workers' network interface; empty for the one over which the agents connect."""
    ports: str = ""
    """FIRST-LAST: the only ports that the agent listens on and assigns to workers; empty for any."""


def agent_command(job: Job, python: str, placement: PlacementArguments) -> tuple[str, ...]:
    """Return the command, as its words, that runs an agent on a node. Nothing is started.

    The command expects the bundle on its standard input. The agent needs the standard library only, so `-S` skips the
    site packages of its Python.

    Args:
        job: The case, the path of its bundle, and the launcher's options. One word of the command is the size of the
            bundle in bytes, or `BYTES` if the bundle does not exist yet.
        python: The interpreter that runs the agent.
        placement: The agent's arguments about its node, the hosts, the network interface and the ports.
    """
    optional = {"--interface": placement.interface, "--ports": placement.ports}
    return (
        *job.prefix,
        *(python, "-I", "-S", "-c", bootstrap_program(), _size(job.bundle)),
        *("agent", "--case", job.id, "--node", placement.node, "--hosts", placement.hosts),
        *(argument for flag, value in optional.items() if value for argument in (flag, value)),
        "--tether",
    )


def reporting_command(job: Job, python: str, placement: PlacementArguments, node: str) -> tuple[str, ...]:
    """Return the words of a command that runs an agent, for a launcher that starts all nodes at once, such as mpirun.

    Nothing is started. Such launchers do not report on which node the interpreter is missing. So the command is a shell
    that starts the interpreter once before the agent, and prints an event `ended` if that fails. For a case with a
    container, the shell starts the agent directly, because the check would start the container twice.

    Args:
        job: The case, the path of its bundle, which need not exist, and the launcher's options.
        python: The interpreter that runs the agent.
        placement: The agent's arguments about its node, the hosts, the network interface and the ports.
        node: Name of the environment variable that holds the node's number.
    """
    message = (
        f"{python.replace('%', '%%')}, which runs the agents, cannot be started on node %s: it is missing there, or "
        "exits at once. Name a Python 3.7 or later that is on every node: --set agent_python=PATH."
    )
    event = json.loads(ended_event("unavailable", message, 0))
    event["failure"].update(phase="start", node="NODE")
    form = json.dumps(event).replace('"NODE"', "%s").replace("\\", "\\\\")
    program = _EXECUTE if job.prefix else _TRY.replace("NODE", node)
    return ("sh", "-c", program, "sh", form, *agent_command(job, python, placement))


def abbreviate(command: Iterable[str]) -> tuple[str, ...]:
    """Return the words of a command for display: `BOOTSTRAP` replaces the source of the program that starts an agent.

    Args:
        command: The words of the command.
    """
    program = bootstrap_program()
    return tuple(
        argument.replace(shlex.quote(program), "BOOTSTRAP").replace(program, "BOOTSTRAP")
        for argument in command
    )


def _size(bundle: Path) -> str:
    try:
        return str(bundle.stat().st_size)
    except OSError:
        return "BYTES"  # for a plan, which has no bundle yet
