"""Convert a launcher's lines to the events of a job, which always end with an event `ended`."""

from __future__ import annotations

import json
import math
import queue
import sys
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from typing import Any

from dlperf_sdk.errors import TimedOut
from dlperf_sdk.interfaces.topology import Job, Topology
from dlperf_sdk.launchers.start_failures import BEFORE_AGENTS
from dlperf_sdk.launchers.stream_events import SILENCE_TIMEOUT, ended_event, lost_node_event, parse_event

_MOST_WAITING = 64 * 1024 * 1024
"""While lines of so many bytes wait, nothing more is read: the agents are slowed down, and the memory is bounded."""
_PAUSE = 0.005
"""Seconds between two looks at the lines that wait."""


def launch_events(
    launcher: Topology, job: Job, deadline: float | None = None
) -> Generator[dict[str, Any], None, None]:
    """Launch a job and yield agent 0's events, as dicts, up to `ended`; closing the iterator ends all agents.

    The job is launched when the first event is requested.

    Lines that are no event, heartbeats and `diagnostics` are left out. While the job waits, there are events `waiting`,
    whose `text` names the reason; an event with the same text as the one before is left out. The function itself makes
    the event `ended`, with a failure of the kind `lost-node`, if the stream ends without it, or is silent for too long:
    for the job's `start_timeout`, or for 15 seconds after agents have started.

    Args:
        launcher: The launcher.
        job: The case and its bundle.
        deadline: Time at which the job is ended, in seconds of the monotonic clock; None for no limit.

    Raises:
        TimedOut: The deadline has passed. Lines that arrived before it have been yielded.
        Unavailable: The launcher cannot place the job, or a program of it cannot be executed.
        OSError: A resource such as descriptors ran out.
    """
    with launcher.launch(job) as stream, closing(_Lines(stream, deadline)) as lines:
        output, waits_for, timeout, host, is_started = "", None, job.start_timeout, None, False
        phase: str | None = "start"  # until all agents have joined
        while True:
            try:
                line = lines.get(timeout)
            except queue.Empty:
                silence = f"{timeout:g} s" + (
                    ", the deadline 'start'" if timeout == job.start_timeout else ""
                )
                if is_started or job.nodes == 1 or len(launcher.commands(job)) > 1:
                    yield _missing(host, f"has sent nothing for {silence}", output, phase, is_started)
                else:
                    yield _in_phase(json.loads(_silent_launcher(silence)), phase)
                return
            except TimeoutError:
                raise TimedOut(
                    "The case's time limit has passed, and its workers were ended."
                    if waits_for is None
                    else f"The case's time limit has passed before the job was started: {waits_for}."
                ) from None
            if line is None:
                outcome = "ended in the middle of the run" if is_started else "was not started"
                yield _missing(host, outcome, output, phase, is_started)
                return
            event = parse_event(line)
            if event is None:
                continue
            kind = event["event"]
            if kind not in ("waiting", "case"):
                timeout = SILENCE_TIMEOUT
            is_started = is_started or kind not in BEFORE_AGENTS
            if kind == "diagnostics":
                output = str(event.get("text"))
            if kind in ("heartbeat", "diagnostics") or (kind == "waiting" and event.get("text") == waits_for):
                continue
            waits_for = event.get("text") if kind == "waiting" else None
            if kind == "agents-ready":
                host, phase = _first_host(event), None
            yield _in_phase(event, phase) if kind == "ended" else event
            if kind == "ended":
                return


def _in_phase(ended: dict[str, Any], phase: str | None) -> dict[str, Any]:
    """Return the event `ended` with the phase in its failure, if it has none."""
    failure = ended.get("failure")
    if phase is None or not isinstance(failure, dict) or failure.get("phase"):
        return ended
    return {**ended, "failure": {**failure, "phase": phase}}


def _missing(
    host: str | None, outcome: str, output: str, phase: str | None, is_started: bool
) -> dict[str, Any]:
    """Return the event `ended` of a stream whose agent 0 has not written it."""
    message = (
        f"The agent of node 0 {outcome}. Check the hosts, and the Python that runs the agents there "
        f"(--set agent_python=).{f' Last output: {output}' if output else ''}"
    )
    line = lost_node_event(host, outcome, output) if is_started else ended_event("lost-node", message, 0)
    return _in_phase(json.loads(line), phase)


def _silent_launcher(silence: str) -> bytes:
    """Return the last event of a launcher that starts all agents with one command and has started none."""
    message = (
        f"No agent has sent anything for {silence}: the launcher starts all of them or none, and any host may "
        "be the reason. Check that each can be reached from here, and the Python that runs the agents there "
        "(--set agent_python=)."
    )
    return ended_event("lost-node", message)


def _first_host(event: Mapping[str, Any]) -> str | None:
    """Return the host name of node 0; the recorder reports a malformed event."""
    try:
        return str(event["nodes"][0]["host"])
    except (KeyError, TypeError, IndexError):
        return None


def _size(line: bytes | None) -> int:
    return 0 if line is None else sys.getsizeof(line)


class _Lines:
    """The lines of a stream, which a thread reads, up to a deadline on the monotonic clock."""

    def __init__(self, stream: Iterator[bytes], deadline: float | None) -> None:
        # Not a `Queue`: a Ctrl-C while it re-acquires its lock would surface as a RuntimeError.
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._deadline = math.inf if deadline is None else deadline
        self._in_time: int | None = None
        """Once the deadline has passed: the number of lines that had arrived by then."""
        self._put = self._taken = 0
        """Bytes of the lines that were put into the queue, and of those that were taken from it."""
        self._is_closed = False
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def get(self, timeout: float) -> bytes | None:
        """Return the next line, or None at the stream's end. What arrived before the deadline may be a finished repeat.

        Raises:
            queue.Empty: No line has come for `timeout` seconds.
            TimeoutError: The deadline has passed, and all lines before it have been returned.
        """
        remaining = self._deadline - time.monotonic()
        if remaining <= 0 and self._in_time is None:
            self._in_time = self._queue.qsize()
        if self._in_time is not None:
            if not self._in_time:
                raise TimeoutError
            self._in_time -= 1
            return self._count(self._queue.get())
        try:
            return self._count(self._queue.get(timeout=min(timeout, remaining)))
        except queue.Empty:
            if remaining <= timeout:
                return self.get(timeout)
            raise

    def close(self) -> None:
        """Drop all further lines, so that the agents can write while they end."""
        self._is_closed = True

    def _count(self, line: bytes | None) -> bytes | None:
        self._taken += _size(line)
        return line

    def _read(self, stream: Iterator[bytes]) -> None:
        try:
            for line in stream:
                if self._is_closed:
                    continue
                self._queue.put(line)
                self._put += _size(line)
                while self._put - self._taken > _MOST_WAITING and not self._is_closed:
                    time.sleep(_PAUSE)
        except (OSError, ValueError):
            pass  # the context was left, which closed the stream
        finally:
            self._queue.put(None)
