"""A job of our own under Slurm: submitted, followed without a shared file system, attached to, cancelled.

The batch script holds the bundle (Slurm keeps it where only the user and Slurm read it). It starts the agents with one
srun, and keeps their stream in a private directory on its node, from where a step of the same job fetches it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import select
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from dlperf_sdk.errors import Unavailable
from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.topologies import delivery

if TYPE_CHECKING:
    from dlperf_sdk.topologies.slurm import SlurmOptions

LARGEST = 4_000_000
"""Bytes: Slurm's own limit of a script is 4 MiB (`max_script_size`)."""
_LOOK = 1.0
_START = 300.0
"""Seconds from the job's start to the first word of its agents, as the deadline 'start' has it."""
_OF_THE_CASE = b'"event": "case"'
"""What is in the line that a batch job writes before it starts its agents."""
_OVER = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE"}
_SCRIPT = """\
#!/usr/bin/env python3
import base64, os, runpy, sys
os.umask(0o077)
folder = "/tmp/dlperf-job-%d-%s" % (os.getuid(), os.environ["SLURM_JOB_ID"])
os.mkdir(folder, 0o700)
path = os.path.join(folder, "bundle.pyz")
with open(path, "wb") as file:
    file.write(base64.b64decode(BUNDLE))
sys.argv = [path, "batch", "--folder", folder, "--linger", "LINGER", "--", *STEP]
runpy.run_path(path, run_name="__main__")
"""


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
        *(f"--job-name=dlperf-{job.id}", f"--nodes={job.nodes}", "--ntasks-per-node=1"),
        *(("--exclusive",) if options.exclusive else ()),
        *(f"--{name}={value}" for name, value in given.items() if value),
        *shlex.split(options.sbatch_flags),
    )


def script(job: Job, step: Sequence[str], linger: int, bundle: bytes) -> str:
    """The batch script, in Python: nothing in it is read by a shell; pure."""
    text = base64.b64encode(bundle).decode()
    filled = _SCRIPT.replace("STEP", repr(list(step))).replace("LINGER", str(linger))
    return filled.replace("BUNDLE", repr(text) if text else "…")


@contextmanager
def submitted(job: Job, step: Sequence[str], options: SlurmOptions) -> Iterator[Iterator[bytes]]:
    """Submit, wait until it runs, follow. Leaving the context cancels the job, however far it is.

    Raises:
        Unavailable: Slurm refuses it, or it ended before it ran.
    """
    text = script(job, step, options.linger, job.bundle.read_bytes())
    if len(text) > LARGEST:
        raise Unavailable(
            f"The batch script has {len(text):,} bytes, and Slurm takes {LARGEST:,}; run in an allocation."
        )
    number = _told([*submission(job, options)], text).partition(";")[0].strip()
    try:
        yield stream(number)
    finally:
        with contextlib.suppress(Unavailable):
            _told(["scancel", number])
            _await_end(number)


def stream(number: str) -> Iterator[bytes]:
    """The stream of a job from its beginning, whoever submitted it; leaving off does it no harm.

    Once agents have been heard it falls silent for `delivery.SILENCE` seconds at most: then its node is lost.

    Raises:
        Unavailable: there is no such job, or Slurm does not answer.
    """
    while (about := facts(number)).get("JobState") in ("PENDING", "CONFIGURING"):
        yield b'{"event": "waiting"}'
        time.sleep(_LOOK)
    offset, said, last = 0, "", {"event": ""}
    heard, patience = time.monotonic(), _START
    while True:
        if about.get("JobState") not in _OVER:
            with _follower(number, about["BatchHost"], offset) as (process, diagnostics):
                assert process.stdout is not None
                for line in _lines(process.stdout, patience):
                    offset, heard = offset + len(line), time.monotonic()
                    patience = _patience(line, patience)
                    last = _told_by(line) or last
                    yield line
                said = last.get("text") or delivery.said_in(diagnostics)
                if last["event"] == "ended":
                    return
        with contextlib.suppress(
            Unavailable
        ):  # Slurm may be busy, or its controller be on its way to another host
            about = facts(number)
        if about.get("JobState") in _OVER or (last["event"] == "diagnostics" and why("", said)):
            told = why(about["JobState"], said) or (
                "lost-node",
                f"The job ended as {about['JobState']}. {said}",
            )
            yield delivery.ended(*told)
            return
        if time.monotonic() > heard + patience:
            yield delivery.lost(about.get("BatchHost"), f"has not been heard for {patience:.0f} s", said)
            return
        time.sleep(_LOOK)


def _lines(pipe: IO[bytes], patience: float) -> Iterator[bytes]:
    """Whole lines, up to the pipe's end, or to where it is silent for too long.

    One that is cut off in the middle is left out: it is fetched again from its beginning.
    """
    rest = b""
    while select.select([pipe], [], [], patience)[0]:
        data = os.read(pipe.fileno(), 1 << 16)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n") if b"\n" in data else [rest + data]
        for line in lines:
            patience = _patience(line, patience)
            yield line + b"\n"


def _patience(line: bytes, before: float) -> float:
    """Seconds that may be silent after a line: fewer, once agents have spoken."""
    return before if _OF_THE_CASE in line else delivery.SILENCE


@contextmanager
def _follower(
    number: str, host: str, offset: int
) -> Iterator[tuple[subprocess.Popen[bytes], tempfile._TemporaryFileWrapper[bytes]]]:
    """A step of the job, on the node of its batch script, that prints the stream."""
    source = (Path(__file__).parent.parent / "worker" / "follow.py").read_text(encoding="utf-8")
    command = [
        *(
            "srun",
            f"--jobid={number}",
            "--overlap",
            "--nodes=1",
            "--ntasks=1",
            f"--nodelist={host}",
            "--input=none",
        ),
        *("--mpi=none", "--quiet", "python3", "-I", "-c", source, number, str(offset)),
    ]
    outside = {
        key: value for key, value in os.environ.items() if not key.startswith("SLURM_") or key == "SLURM_CONF"
    }
    with tempfile.NamedTemporaryFile() as diagnostics:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=diagnostics, env=outside, start_new_session=True
        )
        try:
            yield process, diagnostics
        finally:
            process.terminate()
            try:
                process.wait(delivery.PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdout is not None
            process.stdout.close()


def _told_by(line: bytes) -> dict[str, str] | None:
    """The event of a line, if it is one of those that a stream ends with."""
    if b'"ended"' not in line and b'"diagnostics"' not in line:
        return None
    event: dict[str, str] = json.loads(line)
    return event if event.get("event") in ("ended", "diagnostics") else None


def facts(number: str) -> dict[str, str]:
    """What `scontrol` knows of a job: `JobState`, `JobName`, `BatchHost`, …

    Raises:
        Unavailable: there is no such job, or it ended too long ago, or Slurm does not answer.
    """
    if not re.fullmatch("[0-9]+(_[0-9]+)?", number):
        raise Unavailable(f"{number[:50]!r} is no number of a Slurm job.")
    told = _told(["scontrol", "--oneliner", "show", "job", number])
    return dict(re.findall(r"(\S+?)=(\S*)", told))


def why(state: str, said: str) -> tuple[str, str] | None:
    """The kind of failure that a job's state, or srun's words, tell of, and a sentence; None if they tell of none."""
    if state == "TIMEOUT" or "DUE TO TIME LIMIT" in said:
        return (
            "timeout",
            "Slurm ended the job at its time limit. Ask for more with --set time_limit=…, or measure less.",
        )
    if state == "CANCELLED" or re.search("CANCELLED AT", said):
        return "interrupted", "The job was cancelled from outside; the repeats that had finished are kept."
    if state == "NODE_FAIL" or "NODE FAILURE" in said:
        node = re.search(r"ON (\S+) CANCELLED|[Nn]ode failure on (\S+)", said)
        return (
            "lost-node",
            f"Slurm lost a node of the job{f', {node[1] or node[2]}' if node else ''}. {said[-500:]}".strip(),
        )
    if state == "OUT_OF_MEMORY":
        return "out-of-memory", "Slurm ended the job because it took more memory than it had asked for."
    return None


def _await_end(number: str) -> None:
    """Until Slurm has ended a cancelled job on the nodes that it reaches, or for a while."""
    deadline = time.monotonic() + delivery.PATIENCE
    while time.monotonic() < deadline:
        about = facts(number)
        if about.get("JobState") in _OVER:
            return
        time.sleep(0.2)


def _told(command: Sequence[str], text: str = "") -> str:
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{command[0]} does not work here: {error}.") from error
    if done.returncode:
        raise Unavailable(f"{command[0]} refused: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
