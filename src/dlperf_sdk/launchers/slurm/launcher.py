"""The launcher for Slurm, through its own commands: a step of the surrounding allocation, or a separate job.

Neither accounting nor a shared file system is needed. srun carries the bundle on its standard input; in a submitted
job, srun runs on the node of the batch script.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from functools import partial
from typing import Any

from dlperf_sdk.errors import Unavailable
from dlperf_sdk.interfaces.topology import AttachedJob, Job
from dlperf_sdk.launchers.agent_command import PlacementArguments, abbreviate, reporting_command
from dlperf_sdk.launchers.command_launcher import CommandLauncher
from dlperf_sdk.launchers.processes import run_commands
from dlperf_sdk.launchers.slurm import stream, submission
from dlperf_sdk.launchers.slurm.jobs import FINAL_STATES, NAME_PREFIX, explain_end, job_label, query_job
from dlperf_sdk.launchers.slurm.options import SlurmOptions
from dlperf_sdk.launchers.start_failures import explain_start_failure
from dlperf_sdk.launchers.stream_events import ended_event, is_abrupt_end

_WAIT = 30
"""Seconds after the end of one agent in which srun lets the others end."""
_NODE, _NODES = "SLURM_NODEID", "SLURM_STEP_NODELIST"


class Slurm(CommandLauncher):
    """The launcher behind `4n8d@slurm`: a step of the surrounding allocation (SLURM_JOB_ID), else a submitted job."""

    name = "slurm"
    Options = SlurmOptions
    placement_variables = (_NODE, _NODES)

    def unavailable_reason(self, nodes: int, devices_per_node: int, device: str) -> str | None:
        """Return a sentence if there is no srun here, or the surrounding allocation has too few nodes; else None.

        Args:
            nodes: Number of nodes.
            devices_per_node: Number of devices on each node, which does not matter here.
            device: Kind of the devices, which does not matter here.
        """
        if not shutil.which("srun"):
            return (
                "There is no srun here. Run on a machine that submits to Slurm, or choose another launcher."
            )
        allocated = "" if self.has_queue() else os.environ.get("SLURM_JOB_NUM_NODES", "")
        if re.fullmatch("[0-9]{1,7}", allocated) and int(allocated) < nodes:
            return f"The case needs {nodes} nodes, and this allocation has {allocated}."
        return None

    def has_queue(self) -> bool:
        """Return True outside of an allocation, where each launch submits a job."""
        return "SLURM_JOB_ID" not in os.environ

    def place_on(self, host: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy of the options in which `--nodelist=HOST` is added to the arguments of srun or sbatch.

        In an allocation, it is added to `srun_flags`, else to `sbatch_flags`.

        Args:
            host: Name of the node.
            options: The options that the user set, name → value.
        """
        name = "sbatch_flags" if self.has_queue() else "srun_flags"
        return {**options, name: f"{options.get(name, '')} --nodelist={host}".strip()}

    def attach(self, job: str) -> AttachedJob:
        """Return a job that an earlier controller submitted, so that its event stream can be read.

        Args:
            job: Slurm's number of the job.

        Raises:
            Unavailable: There is no such job, dlperf did not submit it, it is over, or Slurm does not answer.
        """
        facts = query_job(job)
        name, state = facts.get("JobName", ""), facts.get("JobState", "")
        if not name.startswith(NAME_PREFIX):
            raise Unavailable(
                f"dlperf did not submit {job_label(job)}; `squeue` shows the names of the jobs."
            )
        if state in FINAL_STATES:
            raise Unavailable(
                f"{job_label(job)} is over ({state}), and its stream is gone. If the command that submitted it, or "
                "another `attach`, saw its end, the result is in that command's store: `dlperf report STORE`."
            )
        return AttachedJob(
            id=name.removeprefix(NAME_PREFIX),
            label=job_label(job),
            cancel_command=f"scancel {job}",
            stream=stream.follow_job(job),
            acknowledge=partial(stream.acknowledge, job),
        )

    def cancel_orphaned_jobs(self, ids: Set[str], options: SlurmOptions) -> Mapping[str, str]:
        """Cancel this user's jobs that have one of the given ids, and return the jobs that have not ended yet.

        Args:
            ids: Values of `Job.id`.
            options: The launcher's options, which do not matter here.

        Returns:
            Label of each job, such as `Slurm job 4711` → Slurm's state of it, or `submitting` if its sbatch still runs
            on this machine.

        Raises:
            Unavailable: Slurm does not answer.
        """
        return submission.cancel_orphaned_jobs(ids)

    def agent_commands(self, job: Job) -> list[tuple[str, ...]]:
        """Return a list with one command, as its words: an srun that starts all agents.

        If a node or an agent is lost, Slurm lets the other agents continue for 30 seconds: the coordinator decides
        whether the run has failed. `job` is the case and its bundle, which need not exist.
        """
        options: SlurmOptions = job.options
        placement = PlacementArguments(f"${_NODE}", f"${_NODES}", options.interface, options.ports)
        step = (
            *("srun", f"--nodes={job.nodes}", f"--ntasks={job.nodes}", "--ntasks-per-node=1", "--overlap"),
            *("--cpu-bind=none", "--mpi=none", "--input=all", "--export=ALL"),
            *("--kill-on-bad-exit=0", "--no-kill", f"--wait={_WAIT}"),
            f"--job-name={NAME_PREFIX}{job.id}",
            *shlex.split(options.srun_flags),
            *reporting_command(job, options.agent_python, placement, _NODE),
        )
        return [step]

    def commands(self, job: Job) -> tuple[tuple[str, ...], ...]:
        """Return a tuple with one command, as its words, for display.

        In an allocation, it is the srun that starts all agents, else the sbatch that submits the batch script. Nothing
        is started. `job` is the case and its bundle, which need not exist.
        """
        return (submission.sbatch_command(job),) if self.has_queue() else super().commands(job)

    def script(self, job: Job) -> str | None:
        """Return the batch script that is submitted, with `…` in place of the bundle; None inside an allocation.

        `job` is the case and its bundle, which need not exist.
        """
        if not self.has_queue():
            return None
        (step,) = self.agent_commands(job)
        return submission.batch_script(abbreviate(step), job.options.linger, b"")

    @contextmanager
    def launch(self, job: Job) -> Iterator[Iterator[bytes]]:
        """Return a context manager that runs a step of the surrounding allocation, or submits a job if there is none.

        The step is started, or the job submitted, on entering the context. The value yields agent 0's stream by lines,
        as bytes with or without their line feeds. If Slurm ends the allocation or the job, the last event of the stream
        names the reason. On exit, the context manager ends the step, or cancels the job. `job` is the case and its
        bundle, which exists.

        Raises:
            Unavailable: Slurm rejects the job, or does not answer, or srun cannot be executed.
            OSError: A resource such as descriptors ran out, or the bundle cannot be read.
        """
        (step,) = self.agent_commands(job)
        python = job.options.agent_python
        if self.has_queue():
            with submission.submit(job, step) as lines:
                yield explain_start_failure(lines, python)
            return
        with run_commands([step], job.bundle) as lines:
            yield explain_start_failure(explain_allocation_end(lines, os.environ["SLURM_JOB_ID"]), python)


def explain_allocation_end(lines: Iterator[bytes], number: str) -> Iterator[bytes]:
    """Yield the lines of a step; if Slurm ended the surrounding allocation, the last event says so.

    Slurm ends the agents and their workers one after another, so the coordinator may still report a lost node or a
    dead worker. Such a last event is replaced.

    Args:
        lines: The lines of agent 0's stream.
        number: Slurm's number of the allocation.
    """
    last = b""
    for line in lines:
        last = line or last
        if is_abrupt_end(line):
            state = yield from stream.await_final_state(number)
            if (end := explain_end(state, "")) is not None:
                yield ended_event(*end)
                return
        yield line
    state = yield from stream.await_final_state(number)
    if (end := explain_end(state, last.decode(errors="replace"))) is not None:
        yield ended_event(*end)
