"""`mpirun`: one process per node, which becomes the agent. MPI itself is not used; only its launcher is.

Its standard input carries the bundle to all ranks, which OpenMPI does. Hydra (MPICH) hands it to the first rank only,
and its proxy ends a process that is slower to read than a pipe is long (4.0.2: "process reading stdin too slowly").
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from dlperf_sdk.interfaces.topology import Job, Topology
from dlperf_sdk.launchers import delivery, start_failures
from dlperf_sdk.launchers.hosts import HostOptions

_RANK = "OMPI_COMM_WORLD_RANK"
_SAYING = ("sh", "-c", 'exec "$@"', "sh")
"""What says that a program is not there: an mpirun that lets the others go on ends without a word, or not at all."""


class Mpi(Topology):
    """`2n8d@mpi`: OpenMPI's mpirun."""

    name = "mpi"
    Options = HostOptions
    place_variables = (_RANK,)

    def refuses(self, nodes: int, devices_per_node: int, device: str) -> str | None:
        """Whether there is an mpirun here at all, and one that can carry the bundle."""
        if not shutil.which("mpirun"):
            return "There is no mpirun here. Load or install OpenMPI, or choose another launcher."
        if hydra():
            return (
                "The mpirun here is hydra's (MPICH, Intel MPI), which cannot carry the bundle to the nodes on its "
                "standard input. Load OpenMPI, or choose another launcher: @ssh reaches the same hosts."
            )
        return None

    def mistake(self, nodes: int, options: HostOptions) -> str | None:
        """Whether there are hosts enough, by their names."""
        return options.mistake(nodes)

    def commands(self, job: Job) -> tuple[tuple[str, ...], ...]:
        return (delivery.shown(command(job)),)

    @contextmanager
    def launch(self, job: Job) -> Iterator[Iterator[bytes]]:
        options: HostOptions = job.options
        hosts = options.chosen(job.nodes)
        with (
            tempfile.TemporaryFile() as diagnostics,
            delivery.running([command(job)], job.bundle, diagnostics) as agents,
        ):
            yield start_failures.explained(
                delivery.lines_of(agents, diagnostics), options.agent_python, hosts
            )


@cache
def hydra() -> bool:
    """Whether the mpirun here is hydra's."""
    try:
        told = subprocess.run(
            [shutil.which("mpirun") or "mpirun", "--version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    return bool(re.search("hydra|intel", told, re.IGNORECASE))


def command(job: Job) -> tuple[str, ...]:
    """The one command; pure.

    Standard input goes to every rank: it carries the bundle, and then the signs of life. Ranks are not bound to a
    core, which the workers would inherit.
    """
    options: HostOptions = job.options
    hosts = options.chosen(job.nodes)
    place = options.place(f"${_RANK}", hosts)
    where = ("--host", ",".join(f"{host}:1" for host in hosts), "--map-by", "ppr:1:node", "--bind-to", "none")
    # What a lost agent means is for the coordinator to say, so mpirun lets the others go on.
    lenient = ("--mca", "orte_enable_recovery", "1", "--mca", "orte_abort_on_non_zero_status", "0")
    more = shlex.split(options.launcher_flags)
    agent = delivery.node_command(job, options.agent_python, place)
    return ("mpirun", *where, *lenient, "--stdin", "all", "-np", str(job.nodes), *more, *_SAYING, *agent)
