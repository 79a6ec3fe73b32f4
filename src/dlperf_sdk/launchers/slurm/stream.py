"""Read agent 0's stream of a job from the node of its batch script, for the controller or one that attaches later."""

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
from typing import IO, Any

import dlperf_sdk
from dlperf_sdk.errors import Unavailable
from dlperf_sdk.launchers.processes import STOP_TIMEOUT, start_command, wait_or_kill
from dlperf_sdk.launchers.slurm.jobs import (
    COMPLETING,
    FINAL_STATES,
    explain_end,
    job_label,
    query_job,
    query_job_or,
)
from dlperf_sdk.launchers.stream_events import (
    HEARTBEAT,
    SILENCE_TIMEOUT,
    LineBuffer,
    ended_event,
    is_abrupt_end,
    lost_node_event,
    parse_event,
)
from dlperf_sdk.worker.agent.diagnostics import read_tail

_POLL = 1.0
_START_TIMEOUT = 300.0
"""Seconds from the job's start to the first event of its agents, as the deadline 'start' has it."""
_END_TIMEOUT = 45.0
"""Seconds that Slurm may take to end a job: its KillWait, 30 by default, and the cleanup after it."""
_SETTLE = 5.0
"""Seconds after a stream that ended early in which Slurm may report the reason."""
_ACKNOWLEDGE_TIMEOUT = 60.0
_CASE = b'"event": "case"'
"""Part of the line that a batch job writes before it starts its agents."""


def follow_job(number: str) -> Iterator[bytes]:
    """Yield the lines of a job's stream from its beginning, even if another controller submitted the job.

    Each item is a JSON event as bytes. The lines of the job have their newline; the events that the iterator adds have
    none. It adds events `waiting` while the job waits in the queue, and heartbeats. A job is regarded as lost if it has
    written nothing for `SILENCE_TIMEOUT` (15) seconds after its agents have started. If the job ends or is lost before
    agent 0 has written the event `ended`, the iterator adds this event, with Slurm's reason if there is one. Closing
    the iterator does not cancel the job.

    Args:
        number: The job's number.

    Raises:
        Unavailable: There is no such job, Slurm does not answer the first query, or srun cannot be executed.
        OSError: A resource such as descriptors or processes ran out.
    """
    facts = query_job(number)
    while facts.get("JobState") in ("PENDING", "CONFIGURING"):
        yield waiting_event(number, facts.get("Reason", "None"))
        time.sleep(_POLL)
        facts = query_job_or(facts, number)
    offset, output, last = 0, "", {"event": ""}
    last_read, timeout = time.monotonic(), _START_TIMEOUT
    while True:
        if facts.get("JobState") not in FINAL_STATES:
            with _start_follower(number, facts["BatchHost"], offset) as (process, diagnostics):
                assert process.stdout is not None
                for line in _read_lines(process.stdout, timeout):
                    if line is HEARTBEAT:  # not part of the stream: no offset
                        yield line
                        continue
                    if is_abrupt_end(line) and (
                        end := explain_end((yield from await_final_state(number)), "")
                    ):
                        yield ended_event(*end)
                        return
                    offset, last_read = offset + len(line), time.monotonic()
                    timeout = _silence_timeout(line, timeout)
                    last = _final_event(line) or last
                    yield line
                output = last.get("text") or read_tail(diagnostics)
                if last["event"] == "ended":
                    return
        facts = query_job_or(facts, number)
        hosts = facts.get("NodeList", "")
        if facts.get("JobState") == COMPLETING:
            facts = {**facts, "JobState": (yield from await_final_state(number))}
        is_stream_over = last["event"] == "diagnostics"
        if facts.get("JobState") in FINAL_STATES or (is_stream_over and explain_end("", output, hosts)):
            state = facts["JobState"]
            yield ended_event(
                *explain_end(state, output, hosts) or ("lost-node", f"The job ended as {state}. {output}")
            )
            return
        if is_stream_over and time.monotonic() > last_read + _SETTLE:
            yield lost_node_event(facts.get("BatchHost"), "ended in the middle of the run", output)
            return
        if time.monotonic() > last_read + timeout:
            yield lost_node_event(facts.get("BatchHost"), f"has sent nothing for {timeout:.0f} s", output)
            return
        time.sleep(_POLL)


def await_final_state(number: str) -> Generator[bytes, None, str]:
    """Wait while a job is in Slurm's state `COMPLETING`, yield heartbeats meanwhile, and return the job's state.

    The heartbeats are events as bytes, without newline. `yield from` gives the returned state. Slurm reports why a job
    ended only after the state `COMPLETING`. The generator also waits while Slurm does not answer. It ends after 45
    seconds at the latest, and at once for a job in another state.

    Args:
        number: The job's number.

    Returns:
        Slurm's state of the job, such as `RUNNING` or `TIMEOUT`, or still `COMPLETING` after 45 seconds; empty if Slurm
        does not answer.
    """
    deadline = time.monotonic() + _END_TIMEOUT
    while True:
        state = query_job_or({}, number).get("JobState", "")
        if state not in (COMPLETING, "") or time.monotonic() > deadline:
            return state
        yield HEARTBEAT
        time.sleep(_POLL)


def waiting_event(number: str, reason: str) -> bytes:
    """Return an event `waiting`, as a line without line feed, with Slurm's reason why a job waits.

    Args:
        number: The job's number.
        reason: Slurm's reason, such as `Resources` or `PartitionNodeLimit`; the text `"None"` if there is no reason.
    """
    text = f"{job_label(number)} is waiting" + ("" if reason == "None" else f": {reason}")
    return json.dumps({"event": "waiting", "text": text}).encode()


def _read_lines(pipe: IO[bytes], timeout: float) -> Iterator[bytes]:
    """Yield whole lines, up to the pipe's end, or until it is silent for too long; of a long line, heartbeats before.

    A line that is cut off is left out: it is read again from its beginning.
    """
    buffer = LineBuffer()
    while select.select([pipe], [], [], timeout)[0]:
        data = os.read(pipe.fileno(), 1 << 16)
        if not data:
            return
        lines = buffer.add(data)
        for line in lines:
            timeout = _silence_timeout(line, timeout)
            yield line + b"\n"
        if not lines and buffer.may_be_event():
            yield HEARTBEAT


def _silence_timeout(line: bytes, previous: float) -> float:
    """Return the seconds that may be silent after a line: fewer, once agents have started."""
    return previous if _CASE in line else SILENCE_TIMEOUT


@contextmanager
def _start_follower(
    number: str, host: str, offset: int
) -> Iterator[tuple[subprocess.Popen[bytes], tempfile._TemporaryFileWrapper[bytes]]]:
    """Start a step of the job, on the node of its batch script, that prints the stream."""
    command, variables = _kept_stream_step(number, host, str(offset))
    with tempfile.NamedTemporaryFile() as diagnostics:
        process = start_command(command, stdout=subprocess.PIPE, stderr=diagnostics, env=variables)
        try:
            yield process, diagnostics
        finally:
            process.terminate()
            wait_or_kill([process], STOP_TIMEOUT)
            assert process.stdout is not None
            process.stdout.close()


def acknowledge(number: str) -> None:
    """Tell a job that its stream is stored, so that it stops waiting for readers.

    If the job has not finished its stream, or cannot be reached, nothing is changed, and no error is raised. The job
    ends in any case after the time of the launcher's option `linger`.

    Args:
        number: The job's number.
    """
    with contextlib.suppress(Unavailable, OSError, subprocess.SubprocessError):
        facts = query_job(number)
        if facts.get("JobState") not in FINAL_STATES and "BatchHost" in facts:
            command, variables = _kept_stream_step(number, facts["BatchHost"], "acknowledge")
            null = subprocess.DEVNULL
            subprocess.run(
                command,
                stdin=null,
                stdout=null,
                stderr=null,
                env=variables,
                timeout=_ACKNOWLEDGE_TIMEOUT,
                check=False,
            )


def _kept_stream_step(number: str, host: str, argument: str) -> tuple[list[str], dict[str, str]]:
    """Return the command of a step that runs `kept_stream.py` on the node of the batch script, and its variables."""
    program = Path(dlperf_sdk.__file__).parent / "worker" / "agent" / "kept_stream.py"
    command = [
        *("srun", f"--jobid={number}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={host}"),
        *("--input=none", "--mpi=none", "--quiet"),
        *("python3", "-I", "-S", "-c", program.read_text(encoding="utf-8"), number, argument),
    ]
    variables = {
        key: value for key, value in os.environ.items() if not key.startswith("SLURM_") or key == "SLURM_CONF"
    }
    return command, variables


def _final_event(line: bytes) -> dict[str, Any] | None:
    """Return the event of a line, if it is one of those that a stream ends with."""
    if b'"ended"' not in line and b'"diagnostics"' not in line:
        return None
    event = parse_event(line)
    return event if event is not None and event["event"] in ("ended", "diagnostics") else None
