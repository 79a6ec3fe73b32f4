"""Agent 0's stream of a job, fetched from the node of its batch script: by who submitted it, or who attaches to it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import dlperf_sdk
from dlperf_sdk.errors import Unavailable
from dlperf_sdk.launchers import delivery
from dlperf_sdk.launchers.slurm.job_facts import OVER, TAKEN_DOWN, facts, facts_or, why

_LOOK = 1.0
_START = 300.0
"""Seconds from the job's start to the first word of its agents, as the deadline 'start' has it."""
_TAKEN_DOWN = 45.0
"""Seconds that Slurm may take to end a job: its KillWait, which is 30 unless the administrator has it otherwise, and
what it does behind that."""
_SETTLE = 5.0
"""Seconds in which, after the agents have ended without a word, Slurm may say what it did to them."""
_ACKNOWLEDGE = 60.0
_OF_THE_CASE = b'"event": "case"'
"""What is in the line that a batch job writes before it starts its agents."""


def stream(number: str) -> Iterator[bytes]:
    """The stream of a job from its beginning, whoever submitted it; leaving off does it no harm.

    Once agents have been heard it falls silent for `delivery.SILENCE` seconds at most: then its node is lost.

    Raises:
        Unavailable: there is no such job, or Slurm does not answer.
    """
    about = facts(number)
    while about.get("JobState") in ("PENDING", "CONFIGURING"):
        yield _waiting(number, about.get("Reason", "None"))
        time.sleep(_LOOK)
        about = facts_or(about, number)
    offset, said, last = 0, "", {"event": ""}
    heard, patience = time.monotonic(), _START
    while True:
        if about.get("JobState") not in OVER:
            with _follower(number, about["BatchHost"], offset) as (process, diagnostics):
                assert process.stdout is not None
                for line in _lines(process.stdout, patience):
                    if delivery.has_died(line) and (done := why((yield from settled(number)), "")):
                        yield delivery.ended(*done)
                        return
                    offset, heard = offset + len(line), time.monotonic()
                    patience = _patience(line, patience)
                    last = _told_by(line) or last
                    yield line
                said = last.get("text") or delivery.said_in(diagnostics)
                if last["event"] == "ended":
                    return
        about = facts_or(about, number)
        if about.get("JobState") == TAKEN_DOWN:
            about = {**about, "JobState": (yield from settled(number))}
        if about.get("JobState") in OVER or (last["event"] == "diagnostics" and why("", said)):
            told = why(about["JobState"], said) or (
                "lost-node",
                f"The job ended as {about['JobState']}. {said}",
            )
            yield delivery.ended(*told)
            return
        if last["event"] == "diagnostics" and time.monotonic() > heard + _SETTLE:
            yield delivery.lost(about.get("BatchHost"), "went away in the middle of the run", said)
            return
        if time.monotonic() > heard + patience:
            yield delivery.lost(about.get("BatchHost"), f"has not been heard for {patience:.0f} s", said)
            return
        time.sleep(_LOOK)


def settled(number: str) -> Generator[bytes, None, str]:
    """A job's state, as `RUNNING` or `TIMEOUT`; empty where nobody can tell.

    Where it is being taken down just now: what it was taken down for, once Slurm says it, and signs of life meanwhile.
    """
    deadline = time.monotonic() + _TAKEN_DOWN
    while True:
        state = facts_or({}, number).get("JobState", "")
        if state not in (TAKEN_DOWN, "") or time.monotonic() > deadline:
            return state
        yield delivery.HEARTBEAT
        time.sleep(_LOOK)


def _waiting(number: str, reason: str) -> bytes:
    """An event for people: what Slurm says that a job waits for, Resources or PartitionNodeLimit, if it says it."""
    said = f"Slurm's job {number} waits" + ("" if reason == "None" else f": {reason}")
    return json.dumps({"event": "waiting", "text": said}).encode()


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
    command, outside = _beside(number, host, "follow.py", str(offset))
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


def fetched(number: str) -> None:
    """Tell a job that its stream has been kept, so that it need not wait any longer.

    One that is not over, or does not answer, is left as it is: it ends by itself after its `linger`.
    """
    with contextlib.suppress(Unavailable, OSError, subprocess.SubprocessError):
        about = facts(number)
        if about.get("JobState") not in OVER and "BatchHost" in about:
            command, outside = _beside(number, about["BatchHost"], "fetched.py")
            nothing = subprocess.DEVNULL
            subprocess.run(
                command,
                stdin=nothing,
                stdout=nothing,
                stderr=nothing,
                env=outside,
                timeout=_ACKNOWLEDGE,
                check=False,
            )


def _beside(number: str, host: str, program: str, *words: str) -> tuple[list[str], dict[str, str]]:
    """A step of the job on the node of its batch script, that runs a program of the worker's; and its variables."""
    source = (Path(dlperf_sdk.__file__).parent / "worker" / "agent" / program).read_text(encoding="utf-8")
    where = (
        f"--jobid={number}",
        "--overlap",
        "--nodes=1",
        "--ntasks=1",
        f"--nodelist={host}",
        "--input=none",
    )
    command = ["srun", *where, "--mpi=none", "--quiet", "python3", "-I", "-S", "-c", source, number, *words]
    outside = {
        key: value for key, value in os.environ.items() if not key.startswith("SLURM_") or key == "SLURM_CONF"
    }
    return command, outside


def _told_by(line: bytes) -> dict[str, str] | None:
    """The event of a line, if it is one of those that a stream ends with."""
    if b'"ended"' not in line and b'"diagnostics"' not in line:
        return None
    event: dict[str, str] = json.loads(line)
    return event if event.get("event") in ("ended", "diagnostics") else None
