"""A job of our own under Slurm: submitted, followed without a shared file system, cancelled.

The batch script holds the bundle (Slurm keeps it where only the user and Slurm read it). It starts the agents with one
srun, and keeps their stream in a private directory on its node, from where a step of the same job fetches it.
"""

from __future__ import annotations

import base64
import contextlib
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from string import Template
from typing import TYPE_CHECKING

import psutil

from dlperf_sdk.errors import Unavailable
from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.launchers import delivery
from dlperf_sdk.launchers.slurm import stream
from dlperf_sdk.launchers.slurm.job_facts import OURS, OVER, TAKEN_DOWN, answer, facts_or

if TYPE_CHECKING:
    from dlperf_sdk.launchers.slurm.launcher import SlurmOptions

LARGEST = 4_000_000
"""Bytes: Slurm's own limit of a script is 4 MiB (`max_script_size`)."""
_SCRIPT = Template("""\
#!/usr/bin/env python3
import base64, os, runpy, shutil, sys
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


def submission(job: Job, options: SlurmOptions) -> tuple[str, ...]:
    """The sbatch that submits the script, which it reads from its standard input; pure."""
    given = {
        "partition": options.partition,
        "account": options.account,
        "time": options.time_limit,
        "constraint": options.constraint,
        "gres": options.gres,
    }
    return (
        *("sbatch", "--parsable", "--no-requeue", "--no-kill", "--output=/dev/null", "--error=/dev/null"),
        *(f"--job-name={_name(job)}", f"--nodes={job.nodes}", "--ntasks-per-node=1"),
        *(("--exclusive",) if options.exclusive else ()),
        *(f"--{name}={value}" for name, value in given.items() if value),
        *shlex.split(options.sbatch_flags),
    )


def script(step: Sequence[str], linger: int, bundle: bytes) -> str:
    """The batch script, in Python: nothing in it is read by a shell; pure."""
    text = base64.b64encode(bundle).decode()
    return _SCRIPT.substitute(bundle=repr(text) if text else "…", linger=linger, step=list(step))


@contextmanager
def submitted(job: Job, step: Sequence[str], options: SlurmOptions) -> Iterator[Iterator[bytes]]:
    """Submit, wait until it runs, follow. Leaving the context cancels the job, however far it is.

    Raises:
        Unavailable: Slurm refuses it, or it ended before it ran.
    """
    text = script(step, options.linger, job.bundle.read_bytes())
    if len(text) > LARGEST:
        raise Unavailable(
            f"The batch script has {len(text):,} bytes, and Slurm takes {LARGEST:,}; run in an allocation."
        )
    number = _number(job, [*submission(job, options)], text)
    try:
        yield stream.stream(number)
    finally:
        _cancel(number)
        _await_end(number)


def _number(job: Job, command: Sequence[str], text: str) -> str:
    """Submit, and the job's number. Whoever is interrupted meanwhile waits for it: a job that is still on its way to
    Slurm cannot be cancelled."""
    with ThreadPoolExecutor(1) as pool:
        submitting = pool.submit(answer, command, text)
        try:
            return submitting.result().partition(";")[0].strip()
        except KeyboardInterrupt:
            try:
                with contextlib.suppress(Unavailable):
                    submitting.result()
            finally:
                _cancel("--me", f"--name={_name(job)}")
            raise


def end_left(ids: Set[str]) -> dict[str, str]:
    """Cancel this user's jobs of these ids, and say what of them is still there: `Slurm's job 7` → its state.

    A number may be another's job by now; the name and the user are not. Where there is no squeue there is no sbatch
    either, and what runs elsewhere has no company.

    Raises:
        Unavailable: Slurm does not answer.
    """
    if not shutil.which("squeue"):
        return {}
    names = {f"{OURS}{id}" for id in ids}
    found = _submissions(names)  # before squeue: a submission that is over by now is in the queue
    told = answer(["squeue", "--me", "--all", "--states=all", "--array", "--noheader", "--format=%i %T %j"])
    for line in told.splitlines():
        number, state, name = (*line.split(" ", 2), "", "")[:3]
        if name in names and state not in OVER:
            found[f"Slurm's job {number}"] = state
            if state != "COMPLETING":
                _cancel("--me", f"--name={name}", number)
    return found


def _submissions(names: Set[str]) -> dict[str, str]:
    """The sbatch that a killed controller left in the middle of its work, on this machine."""
    flags = {f"--job-name={name}" for name in names}
    return {
        f"the sbatch with the process {process.pid}": "submitting"
        for process in psutil.process_iter(["cmdline"])
        if "--parsable" in (words := process.info["cmdline"] or ()) and flags.intersection(words)
    }


def _cancel(*which: str) -> None:
    """Have a job cancelled, also if somebody presses Ctrl-C a second time."""
    command, nothing = ("scancel", *which), subprocess.DEVNULL
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True).wait(
            delivery.PATIENCE
        )


def _name(job: Job) -> str:
    return f"{OURS}{job.id}"


def _await_end(number: str) -> None:
    """Until Slurm has ended a cancelled job on the nodes that it reaches, or for a while. It is told again, if it was
    too busy to hear of it."""
    deadline = time.monotonic() + delivery.PATIENCE
    while time.monotonic() < deadline:
        state = facts_or({}, number).get("JobState", "")
        if state in OVER:
            return
        if state != TAKEN_DOWN:
            _cancel(number)
        time.sleep(0.2)
