"""Events of a launched job, from a launcher's lines: they always end with an event `ended`."""

from __future__ import annotations

import json
import math
import queue
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from dlperf_sdk.errors import TimedOut
from dlperf_sdk.interfaces.topology import Job, Topology
from dlperf_sdk.launchers.start_failures import BEFORE_AGENTS
from dlperf_sdk.launchers.stream_events import SILENCE_TIMEOUT, ended_event, lost_node_event, parse_event


def launch_events(
    launcher: Topology, job: Job, deadline: float | None = None
) -> Generator[dict[str, Any], None, None]:
    """Launch a job and yield agent 0's events up to `ended`; closing the iterator ends all agents.

    Before them come events `waiting`, whose `text` says what the launcher waits for, without repetitions. If the
    stream ends or falls silent before agent 0 has written `ended`, that event is made here: node 0 is lost.

    Args:
        launcher: the launcher.
        job: the job.
        deadline: a time on the monotonic clock at which the job is ended.

    Raises:
        TimedOut: the deadline has passed.
        Unavailable: the launcher cannot place the job.
    """
    with launcher.launch(job) as stream:
        # Not a `Queue`: a Ctrl-C while its lock is taken back would surface as a RuntimeError.
        lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=_read, args=(stream, lines), daemon=True).start()
        output, waits_for, timeout, host, is_started = "", None, job.start_timeout, None, False
        while True:
            remaining = math.inf if deadline is None else deadline - time.monotonic()
            is_silent = False
            try:
                line = lines.get(timeout=max(0.0, min(timeout, remaining)))
            except queue.Empty:
                is_silent = True
            if deadline is not None and time.monotonic() >= deadline:
                raise TimedOut(
                    "The case's time limit has passed, and its workers were ended."
                    if waits_for is None
                    else f"The case's time limit has passed before the job was started: {waits_for}."
                )
            if is_silent:
                yield _lost(host, f"has sent nothing for {timeout:.0f} s")
                return
            if line is None:
                yield (
                    _lost(host, "ended in the middle of the run", output)
                    if is_started
                    else _unstarted(output)
                )
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
                host = _first_host(event)
            yield event
            if kind == "ended":
                return


def _lost(host: str | None, reason: str, output: str = "") -> dict[str, Any]:
    event: dict[str, Any] = json.loads(lost_node_event(host, reason, output))
    return event


def _unstarted(output: str) -> dict[str, Any]:
    message = (
        "The agent of node 0 was not started. Check the hosts, and the Python that runs the agents there "
        f"(--set agent_python=).{f' Last output: {output}' if output else ''}"
    )
    event: dict[str, Any] = json.loads(ended_event("lost-node", message, 0))
    return event


def _first_host(event: Mapping[str, Any]) -> str | None:
    """Return the host name of node 0; the recorder reports a malformed event."""
    try:
        return str(event["nodes"][0]["host"])
    except (KeyError, TypeError, IndexError):
        return None


def _read(stream: Iterator[bytes], lines: queue.SimpleQueue[bytes | None]) -> None:
    try:
        for line in stream:
            lines.put(line)
    except (OSError, ValueError):
        pass  # the context was left, and the stream closed
    finally:
        lines.put(None)
