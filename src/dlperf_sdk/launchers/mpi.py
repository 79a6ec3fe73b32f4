"""The launcher for OpenMPI: mpirun starts one process per node, which becomes the agent. MPI itself is not used.

OpenMPI's mpirun passes its standard input, which carries the bundle, to all ranks. Hydra (MPICH) passes it to the
first rank only, and its proxy ends a process that reads more slowly than the pipe fills (4.0.2: "process reading
stdin too slowly").
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.launchers.agent_command import reporting_command
from dlperf_sdk.launchers.hosts import HostLauncher, HostOptions, ssh_timeout
from dlperf_sdk.launchers.start_failures import explain_start_failure

_RANK = "OMPI_COMM_WORLD_RANK"


class Mpi(HostLauncher):
    """The launcher behind `2n8d@mpi`: OpenMPI's mpirun on the hosts of the options."""

    name = "mpi"
    placement_variables = (_RANK,)

    def unavailable_reason(self, nodes: int, devices_per_node: int, device: str) -> str | None:
        """Return a sentence if there is no mpirun here, or it is hydra's, which cannot carry the bundle; else None.

        Args:
            nodes: Number of nodes, which does not matter here.
            devices_per_node: Number of devices on each node, which does not matter here.
            device: Kind of the devices, which does not matter here.
        """
        if not shutil.which("mpirun"):
            return "There is no mpirun here. Load or install OpenMPI, or choose another launcher."
        if is_hydra():
            return (
                "The mpirun here is hydra's (MPICH, Intel MPI), which cannot carry the bundle to the nodes on its "
                "standard input. Load OpenMPI, or choose another launcher: @ssh reaches the same hosts."
            )
        return None

    def agent_commands(self, job: Job) -> list[tuple[str, ...]]:
        """Return a list with one command, as its words: an mpirun that starts all agents.

        The command's standard input, the bundle followed by heartbeats, goes to every rank. Ranks are not bound to a
        core, since the workers would inherit the binding. If an agent is lost, mpirun lets the others continue: the
        coordinator decides whether the run has failed.

        Args:
            job: The case and its bundle, which need not exist.

        Raises:
            Unavailable: There are fewer hosts than nodes, a host is invalid or named twice, or the file of hosts cannot
                be read.
        """
        options: HostOptions = job.options
        hosts = options.select_hosts(job.nodes)
        placement = options.placement(f"${_RANK}", hosts)
        agent = reporting_command(job, options.agent_python, placement, _RANK)
        command = (
            *("mpirun", "--host", ",".join(f"{host}:1" for host in hosts)),
            *("--map-by", "ppr:1:node", "--bind-to", "none"),
            *("--mca", "orte_enable_recovery", "1", "--mca", "orte_abort_on_non_zero_status", "0"),
            *_limit_ssh(job),
            *("--stdin", "all", "-np", str(job.nodes), *shlex.split(options.launcher_flags)),
            *agent,
        )
        return [command]

    def explain_failures(self, job: Job, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the lines of agent 0's stream; if no agent starts, add an event `ended` with the reason.

        The reason is a missing Python, or a host that cannot be reached: mpirun starts all agents or none. `job` is the
        case, and `lines` has the lines of the stream.

        Raises:
            Unavailable: There are fewer hosts than nodes, a host is invalid or named twice, or the file of hosts cannot
                be read.
        """
        options: HostOptions = job.options
        return explain_start_failure(lines, options.agent_python, options.select_hosts(job.nodes))


def _limit_ssh(job: Job) -> tuple[str, ...]:
    """Return mpirun's arguments for the ssh that it starts; none if the user chose another program or its arguments."""
    program = os.environ.get("OMPI_MCA_plm_rsh_agent", "ssh").split()  # noqa: SIM112 - OpenMPI spells it so
    is_configured = "OMPI_MCA_plm_rsh_args" in os.environ or "plm_rsh" in job.options.launcher_flags
    if is_configured or not program or Path(program[0]).name != "ssh":
        return ()
    return "--mca", "plm_rsh_args", " ".join(ssh_timeout(job))


@cache
def is_hydra() -> bool:
    """Return True if the mpirun here is hydra's (MPICH, Intel MPI); False if it is not, or cannot be run.

    The answer is cached in this process.
    """
    try:
        version = subprocess.run(
            [shutil.which("mpirun") or "mpirun", "--version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    return bool(re.search("hydra|intel", version, re.IGNORECASE))
