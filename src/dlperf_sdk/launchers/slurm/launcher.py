"""Slurm, through its own commands: a step of the allocation that this runs in, or a job of its own.

No accounting is needed, and no shared file system: srun carries the bundle on its standard input, in a submitted job
from the node where the batch script runs.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager

import attrs
from attrs import frozen

from dlperf_sdk.interfaces.topology import Job, Topology
from dlperf_sdk.launchers import delivery, start_failures
from dlperf_sdk.launchers.hosts import INTERFACE, PORTS, checked_flags, checked_ports
from dlperf_sdk.launchers.slurm import stream, submission
from dlperf_sdk.launchers.slurm.job_facts import why

_WAIT = 30
"""Seconds after the end of one agent in which srun lets the others end."""
_NODE, _NODES = "SLURM_NODEID", "SLURM_STEP_NODELIST"


@frozen
class SlurmOptions:
    """Options of the Slurm launcher."""

    partition: str = attrs.field(default="", metadata={"help": "Partition of a job that is submitted."})
    account: str = attrs.field(default="", metadata={"help": "Account that it is charged to."})
    time_limit: str = attrs.field(
        default="", metadata={"help": "Its time limit, as Slurm writes it: 30 or 1:00:00."}
    )
    constraint: str = attrs.field(default="", metadata={"help": "Features that its nodes must have."})
    gres: str = attrs.field(default="", metadata={"help": "Generic resources per node: gpu:8."})
    exclusive: bool = attrs.field(default=True, metadata={"help": "Share its nodes with no other job."})
    linger: int = attrs.field(
        default=600,
        metadata={"help": "Seconds that a job waits at its end for somebody to fetch its results."},
    )
    interface: str = attrs.field(default="", metadata={"help": INTERFACE})
    ports: str = attrs.field(default="", validator=checked_ports, metadata={"help": PORTS})
    agent_python: str = attrs.field(
        default="python3",
        metadata={"help": "Python 3.7 or later that runs the agent on every node.", "executes": True},
    )
    sbatch_flags: str = attrs.field(
        default="",
        validator=checked_flags,
        metadata={"help": "More arguments for sbatch.", "executes": True},
    )
    srun_flags: str = attrs.field(
        default="",
        validator=checked_flags,
        metadata={
            "help": "More arguments for srun, as for pyxis: --container-image=….",
            "executes": True,
        },
    )


class Slurm(Topology):
    """`4n8d@slurm`: inside an allocation (SLURM_JOB_ID is set) a step of it, elsewhere a job of its own."""

    name = "slurm"
    Options = SlurmOptions
    place_variables = (_NODE, _NODES)

    def refuses(self, nodes: int, devices_per_node: int, device: str) -> str | None:
        """Whether Slurm's commands are here, and whether the allocation that this runs in has nodes enough."""
        if not shutil.which("srun"):
            return (
                "There is no srun here. Run on a machine that submits to Slurm, or choose another launcher."
            )
        there = os.environ.get("SLURM_JOB_NUM_NODES", "") if "SLURM_JOB_ID" in os.environ else ""
        if there.isdigit() and int(there) < nodes:
            return f"The case needs {nodes} nodes, and this allocation has {there}."
        return None

    def queues(self) -> bool:
        """Unless there is an allocation."""
        return "SLURM_JOB_ID" not in os.environ

    def end_left(self, ids: Set[str], options: SlurmOptions) -> Mapping[str, str]:
        """By the names of the jobs: whoever had submitted one may not have lived to learn its number."""
        return submission.end_left(ids)

    def commands(self, job: Job) -> tuple[tuple[str, ...], ...]:
        if "SLURM_JOB_ID" in os.environ:
            return (delivery.shown(step(job)),)
        return (submission.submission(job, job.options),)

    def script(self, job: Job) -> str | None:
        """The batch script of a job that is submitted; of the bundle that is in it, there is an ellipsis."""
        if not self.queues():
            return None
        options: SlurmOptions = job.options
        return submission.script(delivery.shown(step(job)), options.linger, b"")

    @contextmanager
    def launch(self, job: Job) -> Iterator[Iterator[bytes]]:
        options: SlurmOptions = job.options
        if "SLURM_JOB_ID" not in os.environ:
            with submission.submitted(job, step(job), options) as stream:
                yield start_failures.explained(stream, options.agent_python)
            return
        with (
            tempfile.TemporaryFile() as diagnostics,
            delivery.running([step(job)], job.bundle, diagnostics) as agents,
        ):
            lines = _with_reason(delivery.lines_of(agents, diagnostics), os.environ)
            yield start_failures.explained(lines, options.agent_python)


def step(job: Job) -> tuple[str, ...]:
    """The one srun that starts all agents; pure.

    What a lost node or agent means is for the coordinator to say, so Slurm lets the others go on for a while.
    """
    options: SlurmOptions = job.options
    place = delivery.Rendezvous(f"${_NODE}", f"${_NODES}", options.interface, options.ports)
    return (
        *("srun", f"--nodes={job.nodes}", f"--ntasks={job.nodes}", "--ntasks-per-node=1", "--overlap"),
        *("--cpu-bind=none", "--mpi=none", "--input=all", "--export=ALL"),
        *("--kill-on-bad-exit=0", "--no-kill", f"--wait={_WAIT}"),
        f"--job-name=dlperf-{job.id}",
        *shlex.split(options.srun_flags),
        *delivery.node_command(job, options.agent_python, place),
    )


def _with_reason(lines: Iterator[bytes], variables: Mapping[str, str]) -> Iterator[bytes]:
    """The lines, and at their end what Slurm did to the allocation, if that is why they ended.

    It ends the agents one after another, and their workers too, so the coordinator may still have the time to miss a
    node, or to hear of a worker's death.
    """
    last = b""
    for line in lines:
        last = line or last
        if delivery.has_died(line):
            state = yield from stream.settled(variables["SLURM_JOB_ID"])
            if (done := why(state, "")) is not None:
                yield delivery.ended(*done)
                return
        yield line
    state = yield from stream.settled(variables["SLURM_JOB_ID"])
    if (done := why(state, last.decode(errors="replace"))) is not None:
        yield delivery.ended(*done)
