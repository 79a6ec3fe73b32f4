"""Kinds of jobs that can be joined, and a process's seat in its job, from the variables of whoever started it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from attrs import frozen


@frozen
class JobKind:
    """A kind of job, described by the names of the variables that each of its processes has.

    A name is empty if jobs of this kind do not have the variable.
    """

    name: str
    """Name of the kind for users."""
    marker: tuple[str, ...]
    """Variables that all processes of such a job have, and processes of other jobs do not."""
    rank: str
    """The rank of the process among all processes."""
    size: str
    """The number of processes."""
    local_rank: str = ""
    """The rank of the process on its node."""
    local_size: str = ""
    """The number of processes on this node."""
    node: str = ""
    """The number of the process's node."""
    nodes: str = ""
    """The number of nodes."""
    address: str = ""
    """Name or address of the node of rank 0."""
    hosts: str = ""
    """Host names of all nodes in their order, as `expand_hosts` reads them."""
    identity: tuple[str, ...] = ()
    """Variables that tell two jobs apart."""
    remedy: str = ""
    """Sentence on how to start the job with the same number of processes on each node, node by node."""

    def list_variables(self) -> tuple[str, ...]:
        """Return the names of the environment variables that a job of this kind sets; a name may occur twice."""
        named = (self.rank, self.size, self.local_rank, self.local_size, self.node, self.nodes)
        return tuple(filter(None, (*self.marker, *named, self.address, self.hosts, *self.identity)))


JOB_KINDS = (
    JobKind(
        name="torchrun",
        marker=("TORCHELASTIC_RUN_ID",),
        rank="RANK",
        size="WORLD_SIZE",
        local_rank="LOCAL_RANK",
        local_size="LOCAL_WORLD_SIZE",
        node="GROUP_RANK",
        address="MASTER_ADDR",
        identity=("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT"),
        remedy="Start it with the same --nproc-per-node on every node.",
    ),
    JobKind(
        name="OpenMPI",
        marker=("OMPI_COMM_WORLD_RANK",),
        rank="OMPI_COMM_WORLD_RANK",
        size="OMPI_COMM_WORLD_SIZE",
        local_rank="OMPI_COMM_WORLD_LOCAL_RANK",
        local_size="OMPI_COMM_WORLD_LOCAL_SIZE",
        identity=("PMIX_NAMESPACE",),
        remedy="Start it with `mpirun --map-by ppr:N:node`, which places N ranks on each node in turn.",
    ),
    JobKind(
        name="MPICH",
        marker=("PMI_RANK", "MPI_LOCALRANKID"),
        rank="PMI_RANK",
        size="PMI_SIZE",
        local_rank="MPI_LOCALRANKID",
        local_size="MPI_LOCALNRANKS",
        remedy="Start it with `mpirun -ppn N`, which places N ranks on each node in turn.",
    ),
    JobKind(
        name="Slurm",
        marker=("SLURM_STEP_ID", "SLURM_PROCID"),
        rank="SLURM_PROCID",
        size="SLURM_STEP_NUM_TASKS",
        local_rank="SLURM_LOCALID",
        node="SLURM_NODEID",
        nodes="SLURM_STEP_NUM_NODES",
        hosts="SLURM_STEP_NODELIST",
        identity=("SLURM_JOB_ID", "SLURM_STEP_ID"),
        remedy="Start it with `srun --ntasks-per-node=N`; without, srun may place different numbers of tasks.",
    ),
    JobKind(
        name="started by hand",
        marker=("RANK",),
        rank="RANK",
        size="WORLD_SIZE",
        local_rank="LOCAL_RANK",
        local_size="LOCAL_WORLD_SIZE",
        node="GROUP_RANK",
        address="MASTER_ADDR",
        identity=("MASTER_ADDR", "MASTER_PORT"),
        remedy="Set RANK and WORLD_SIZE for one process per device or one per node, node by node.",
    ),
)
"""In the order in which they are looked for: a job that runs inside of another one comes first. The first four are
the jobs of programs; the last one is set by hand, in a notebook or a pod."""

OPTIONAL = ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR")
"""Variables that a job without a program need not set: they follow from the topology."""


MOST_PROCESSES = 100_000
"""Maximum number of processes of a job, as many as a topology may have devices."""


@frozen
class Seat:
    """The place of a process in its job."""

    kind: JobKind
    """The kind of job."""
    rank: int
    """Rank of the process among all processes, counted from 0."""
    node: int
    """Number of its node, counted from 0."""
    local_rank: int
    """Rank of the process on its node, counted from 0."""
    nodes: int
    """The number of nodes."""
    local_size: int
    """The number of processes on each node: one per device, or one."""

    @property
    def is_controller(self) -> bool:
        """True for rank 0 of the job."""
        return self.rank == 0

    def describe_shortage(self, nodes: int, devices_per_node: int) -> str | None:
        """Return a sentence if the job is too small for a topology; else None.

        The topology may be smaller than the job: the first nodes are used, and on each the first devices.

        Args:
            nodes: Number of nodes of the topology.
            devices_per_node: Number of devices on each of them.
        """
        if nodes <= self.nodes and (self.local_size == 1 or devices_per_node <= self.local_size):
            return None
        return (
            f"The topology needs {_describe_shape(nodes, devices_per_node, 'device')}; the job has "
            f"{_describe_shape(self.nodes, self.local_size, 'process', 'processes')}. Ask for less, or start a larger "
            "job."
        )

    def describe(self) -> str:
        """Return the process as users know it, such as `rank 3 (local rank 1 of node 1)`."""
        return f"rank {self.rank} ({describe_place(self.node, self.local_rank)})"


def describe_place(node: int, local_rank: int) -> str:
    """Return a place in a job, such as `local rank 1 of node 1`."""
    return f"local rank {local_rank} of node {node}"


def find_job_kind(environ: Mapping[str, str]) -> JobKind | None:
    """Return the kind of job that a process belongs to; None if it belongs to none.

    If a job runs inside of another one, such as torchrun inside of Slurm, the inner one counts.

    Args:
        environ: The environment variables of the process.
    """
    return next((kind for kind in JOB_KINDS if all(name in environ for name in kind.marker)), None)


def list_job_variables() -> Sequence[str]:
    """Return the names of the variables of all kinds of jobs, sorted; agents and workers do not get these variables."""
    return sorted({name for kind in JOB_KINDS for name in kind.list_variables()})


def read_seat(kind: JobKind, environ: Mapping[str, str], nodes: int, devices_per_node: int) -> Seat:
    """Return a process's place in its job, from environment variables; check that the job is large enough for a case.

    Args:
        kind: The kind of job.
        environ: The environment variables of the process.
        nodes: The number of nodes of the topology.
        devices_per_node: The number of devices on each of them.

    Raises:
        ValueError: A variable is missing or no number, the variables contradict each other, or the job is smaller than
            the topology. The message is a sentence with the remedy.
    """
    optional = OPTIONAL if kind is JOB_KINDS[-1] else ()
    needed = (kind.rank, kind.size, kind.local_rank, kind.local_size, kind.node, kind.nodes)
    missing = [name for name in needed if name and name not in environ and name not in optional]
    if missing:
        raise ValueError(
            f"{kind.marker[0]} is set, so this process belongs to a job ({kind.name}), but {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not set. {kind.remedy}"
        )
    numbers = {name: _number(name, environ[name]) for name in needed if name in environ}
    rank, size = numbers[kind.rank], numbers[kind.size]
    if size > MOST_PROCESSES:
        raise ValueError(f"The job has {size:,} processes ({kind.size}); it may have {MOST_PROCESSES:,}.")
    if kind.nodes:
        local_size = (
            size // numbers[kind.nodes] if numbers[kind.nodes] and not size % numbers[kind.nodes] else 0
        )
    elif kind.local_size in numbers:
        local_size = numbers[kind.local_size]
    else:  # one process per device, or one per node
        local_size = next((per_node for per_node in (devices_per_node, 1) if size == nodes * per_node), 0)
    if not local_size or size % local_size:
        raise ValueError(
            f"The job has {size} processes ({kind.size}), which are neither one per device nor one per node of "
            f"{_describe_shape(nodes, devices_per_node, 'device')}, with the same number on each. {kind.remedy}"
        )
    seat = Seat(
        kind,
        rank,
        numbers.get(kind.node, rank // local_size),
        numbers.get(kind.local_rank, rank % local_size),
        size // local_size,
        local_size,
    )
    is_in_range = rank < size and seat.node < seat.nodes and seat.local_rank < local_size
    is_in_order = bool(kind.nodes) or rank == seat.node * local_size + seat.local_rank
    if not (is_in_range and is_in_order and (rank == 0) == (seat.node == seat.local_rank == 0)):
        listed = ", ".join(f"{name}={environ[name]}" for name in needed if name in environ)
        raise ValueError(
            f"The variables of the job ({kind.name}) contradict each other: {listed}. The ranks must be numbered "
            f"node by node, the same number on each. {kind.remedy}"
        )
    shortage = seat.describe_shortage(nodes, devices_per_node)
    if shortage is not None:
        raise ValueError(shortage)
    return seat


def _describe_shape(nodes: int, per_node: int, singular: str, plural: str = "devices") -> str:
    """Return a shape such as `2 nodes with 4 devices each`."""
    amount = f"{per_node} {singular if per_node == 1 else plural}"
    return f"1 node with {amount}" if nodes == 1 else f"{nodes} nodes with {amount} each"


def _number(name: str, text: str) -> int:
    if not re.fullmatch("[0-9]{1,7}", text):
        raise ValueError(f"The variable {name} is {text[:50]!r}; expected a number from 0.")
    return int(text)
