"""`mpirun`: one process per node, which becomes the agent. MPI itself is not used; only its launcher is."""

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
from dlperf_sdk.topologies import delivery
from dlperf_sdk.topologies.hosts import HostOptions

OPENMPI, HYDRA = "openmpi", "hydra"
_RANK = {OPENMPI: "$OMPI_COMM_WORLD_RANK", HYDRA: "$PMI_RANK"}


class Mpi(Topology):
    """`2n8d@mpi`: OpenMPI's mpirun, or hydra (MPICH, Intel MPI), whichever is here."""

    name = "mpi"
    Options = HostOptions

    def refuses(self, nodes: int, devices_per_node: int, device: str) -> str | None:
        """Whether there is an mpirun here at all."""
        if shutil.which("mpirun"):
            return None
        return "There is no mpirun here. Load or install OpenMPI or MPICH, or choose another engine."

    def commands(self, job: Job) -> tuple[tuple[str, ...], ...]:
        return (delivery.shown(command(job, flavour())),)

    @contextmanager
    def launch(self, job: Job) -> Iterator[Iterator[bytes]]:
        with (
            tempfile.TemporaryFile() as diagnostics,
            delivery.running([command(job, flavour())], job.bundle, diagnostics) as agents,
        ):
            yield delivery.lines_of(agents, diagnostics)


@cache
def flavour() -> str:
    """Whose mpirun it is."""
    try:
        told = subprocess.run(
            [shutil.which("mpirun") or "mpirun", "--version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return OPENMPI
    return HYDRA if re.search("hydra|intel", told, re.IGNORECASE) else OPENMPI


def command(job: Job, flavour: str) -> tuple[str, ...]:
    """The one command; pure.

    Standard input goes to every rank: it carries the bundle, and then the signs of life. Ranks are not bound to a
    core, which the workers would inherit.
    """
    options: HostOptions = job.options
    hosts = options.chosen(job.nodes)
    place = delivery.Rendezvous(_RANK[flavour], ",".join(hosts), options.interface or None)
    agent = delivery.node_command(job, options.agent_python, place)
    if flavour == HYDRA:
        hydra = ("-hosts", ",".join(hosts), "-ppn", "1", "-stdin", "all", "-bind-to", "none")
        return ("mpirun", *hydra, "-n", str(job.nodes), *shlex.split(options.launcher_flags), *agent)
    flags = ("--host", ",".join(f"{host}:1" for host in hosts), "--map-by", "ppr:1:node", "--bind-to", "none")
    # What a lost agent means is for the coordinator to say, so mpirun lets the others go on.
    lenient = ("--mca", "orte_enable_recovery", "1", "--mca", "orte_abort_on_non_zero_status", "0")
    return (
        "mpirun",
        *flags,
        *lenient,
        "--stdin",
        "all",
        "-np",
        str(job.nodes),
        *shlex.split(options.launcher_flags),
        *agent,
    )
