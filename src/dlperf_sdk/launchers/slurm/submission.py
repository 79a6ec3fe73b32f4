"""Submit a job to Slurm, follow it without a shared file system, and cancel it.

The batch script holds the bundle (Slurm keeps it where only the user and Slurm read it). It starts the agents with
one srun, and keeps their stream in a private directory on its node, from where a step of the same job reads it.
"""

from __future__ import annotations

import base64
import contextlib
import shlex
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence, Set
from concurrent.futures import Future, wait
from contextlib import contextmanager
from string import Template

import psutil

from dlperf_sdk.errors import Unavailable
from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.launchers.processes import STOP_TIMEOUT
from dlperf_sdk.launchers.slurm import stream
from dlperf_sdk.launchers.slurm.jobs import (
    COMPLETING,
    FINAL_STATES,
    NAME_PREFIX,
    is_busy,
    job_label,
    query_job_or,
    run_slurm,
)
from dlperf_sdk.launchers.slurm.options import SlurmOptions

MAX_SCRIPT_SIZE = 4_000_000
"""Bytes; Slurm's own limit is 4 MiB (`max_script_size`)."""
_SCRIPT = Template("""\
#!/usr/bin/env python3
import base64, os, runpy, shutil, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGHUP))  # until `batch` handles them
os.umask(0o077)
folder = "/tmp/dlperf-job-%d-%s" % (os.getuid(), os.environ["SLURM_JOB_ID"])
os.mkdir(folder, 0o700)
path = os.path.join(folder, "bundle.pyz")
try:
    with open(path, "wb") as file:
        file.write(base64.b64decode($bundle))
    sys.argv = [path, "batch", "--folder", folder, "--linger", "$linger", "--", *$step]
    runpy.run_path(path, run_name="__main__")
finally:
    shutil.rmtree(folder, ignore_errors=True)
""")


def sbatch_command(job: Job) -> tuple[str, ...]:
    """Return the words of an sbatch command that reads the batch script from its standard input. Nothing is started.

    Args:
        job: The case; its number of nodes and its launcher's options are used.
    """
    options: SlurmOptions = job.options
    flags = {
        "partition": options.partition,
        "account": options.account,
        "time": options.time_limit,
        "constraint": options.constraint,
        "gres": options.gres,
    }
    return (
        *("sbatch", "--parsable", "--no-requeue", "--no-kill", "--output=/dev/null", "--error=/dev/null"),
        *(f"--job-name={_job_name(job)}", f"--nodes={job.nodes}", "--ntasks-per-node=1"),
        *(("--exclusive",) if options.exclusive else ()),
        *(f"--{name}={value}" for name, value in flags.items() if value),
        *shlex.split(options.sbatch_flags),
    )


def batch_script(step: Sequence[str], linger_seconds: int, bundle: bytes) -> str:
    """Return the text of a batch script that starts the agents. It is a Python program; no shell interprets any of it.

    Args:
        step: The words of the srun command that starts the agents.
        linger_seconds: Seconds that the job waits at its end for its stream to be acknowledged.
        bundle: The bundle's content; empty to show the script with `…` in its place.
    """
    text = base64.b64encode(bundle).decode()
    return _SCRIPT.substitute(bundle=repr(text) if text else "…", linger=linger_seconds, step=list(step))


@contextmanager
def submit(job: Job, step: Sequence[str]) -> Iterator[Iterator[bytes]]:
    """Return a context manager that submits a job; its value yields agent 0's stream by lines, as `follow_job` does.

    The job is submitted on entering the context. On exit, it is canceled, and the context manager waits until Slurm has
    ended the job, at most `STOP_TIMEOUT` (10) seconds.

    Args:
        job: The case and its bundle.
        step: The words of the srun command that starts the agents.

    Raises:
        Unavailable: Slurm rejects the job or does not answer, or the batch script, which contains the bundle, has more
            than `MAX_SCRIPT_SIZE` (4,000,000) bytes.
        OSError: The bundle cannot be read.
    """
    script = batch_script(step, job.options.linger, job.bundle.read_bytes())
    if len(script) > MAX_SCRIPT_SIZE:
        raise Unavailable(
            f"The batch script has {len(script):,} bytes, and Slurm takes {MAX_SCRIPT_SIZE:,}; run in an allocation."
        )
    number = ""
    try:
        number = _submit_script(job, script)
        yield stream.follow_job(number)
    finally:
        if number:
            _cancel(number)
            _await_end(number)
        else:
            _cancel_by_name(job)


def _submit_script(job: Job, script: str) -> str:
    """Submit and return the job's number.

    Whatever is raised meanwhile waits for the answer: a job that is still on its way to Slurm cannot be cancelled. A
    Ctrl-C may also come while the thread is being started: either it has not begun and never will, or it is waited for.
    """
    answer: Future[str] = Future()

    def run() -> None:
        if answer.set_running_or_notify_cancel():
            try:
                answer.set_result(run_slurm(sbatch_command(job), script))
            except BaseException as error:
                answer.set_exception(error)

    try:
        threading.Thread(target=run, daemon=True).start()
        return answer.result().partition(";")[0].strip()
    finally:
        if not answer.cancel():
            wait([answer])


def cancel_orphaned_jobs(ids: Set[str]) -> dict[str, str]:
    """Cancel this user's jobs that have one of the given ids, and return the jobs that have not ended yet.

    Jobs are found by name and user: a stored number may belong to another job by now. Without squeue on this machine,
    the result is empty.

    Args:
        ids: Values of `Job.id`.

    Returns:
        Label of each job, such as `Slurm job 4711` → Slurm's state of it, or `submitting` if its sbatch still runs on
        this machine.

    Raises:
        Unavailable: Slurm does not answer.
    """
    if not shutil.which("squeue"):
        return {}
    names = {f"{NAME_PREFIX}{id}" for id in ids}
    orphaned = _running_submissions(names)  # before squeue, which then lists one that has ended
    listed = run_slurm(
        ["squeue", "--me", "--all", "--states=all", "--array", "--noheader", "--format=%i %T %j"]
    )
    for line in listed.splitlines():
        number, state, name = (*line.split(" ", 2), "", "")[:3]
        if name in names and state not in FINAL_STATES:
            orphaned[job_label(number)] = state
            if state != COMPLETING:
                _cancel("--me", f"--name={name}", number)
    return orphaned


def _running_submissions(names: Set[str]) -> dict[str, str]:
    """Return the sbatch processes on this machine that a killed controller has left at work."""
    flags = {f"--job-name={name}" for name in names}
    return {
        f"the sbatch with the process {process.pid}": "submitting"
        for process in psutil.process_iter(["cmdline"])
        if "--parsable" in (arguments := process.info["cmdline"] or ()) and flags.intersection(arguments)
    }


def _cancel(*selection: str) -> None:
    """Cancel jobs, even if Ctrl-C is pressed a second time."""
    command, null = ("scancel", *selection), subprocess.DEVNULL
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True).wait(
            STOP_TIMEOUT
        )


def _cancel_by_name(job: Job) -> None:
    """Cancel a job whose number an interruption kept unknown; wait for its end up to `STOP_TIMEOUT` seconds."""
    deadline = time.monotonic() + STOP_TIMEOUT
    while True:
        try:
            done = not cancel_orphaned_jobs({job.id})
        except Unavailable as error:
            done = not is_busy(error)
        if done or time.monotonic() > deadline:
            return
        time.sleep(0.2)


def _job_name(job: Job) -> str:
    return f"{NAME_PREFIX}{job.id}"


def _await_end(number: str) -> None:
    """Wait until Slurm has ended a cancelled job on the nodes that it reaches, or for a while.

    The job is cancelled again if Slurm was too busy the first time.
    """
    deadline = time.monotonic() + STOP_TIMEOUT
    while time.monotonic() < deadline:
        state = query_job_or({}, number).get("JobState", "")
        if state in FINAL_STATES:
            return
        if state != COMPLETING:
            _cancel(number)
        time.sleep(0.2)
