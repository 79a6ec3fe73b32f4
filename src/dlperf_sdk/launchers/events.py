"""From a launcher's stream of bytes to events that can be trusted to end."""

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
from dlperf_sdk.launchers import delivery

UNSTARTED = ("waiting", "case")
"""Events from before the agents are there: a launcher that waits for its turn, and what a batch job says of itself."""


def events(topology: Topology, job: Job, until: float | None = None) -> Generator[dict[str, Any], None, None]:
    """Launch a job and yield agent 0's events up to `ended`; closing the iterator ends all agents.

    Before them come events `waiting`, whose `text` says what a launcher waits for, once for each thing that it says.
    `until` is a time on the monotonic clock after which it is ended, however far it is. Where the stream ends, or
    falls silent, before agent 0 has said `ended`, that event is made here: node 0 is lost.

    Raises:
        TimedOut: that time has come.
        Unavailable: the launcher cannot place the job.
    """
    with topology.launch(job) as stream:
        lines: queue.Queue[bytes | None] = queue.Queue()
        threading.Thread(target=_read, args=(stream, lines), daemon=True).start()
        said, waits, patience, host, started = "", None, job.patience, None, False
        while True:
            left = math.inf if until is None else until - time.monotonic()
            heard = True
            try:
                line = lines.get(timeout=max(0.0, min(patience, left)))
            except queue.Empty:
                heard = False
            if until is not None and time.monotonic() >= until:
                raise TimedOut(
                    "The case's time limit has passed, and its workers were ended."
                    if waits is None
                    else f"The case's time limit has passed before it was given a place: {waits}."
                )
            if not heard:
                yield _lost(host, f"has not been heard for {patience:.0f} s")
                return
            if line is None:
                yield _lost(host, "went away in the middle of the run", said) if started else _unstarted(said)
                return
            event = event_on(line)
            if event is None:
                continue
            kind = event["event"]
            if kind not in UNSTARTED:
                patience, started = delivery.SILENCE, started or kind != "diagnostics"
            if kind == "diagnostics":
                said = str(event.get("text"))
            if kind in ("heartbeat", "diagnostics") or (kind == "waiting" and event.get("text") == waits):
                continue
            waits = event.get("text") if kind == "waiting" else None
            if kind == "agents-ready":
                host = _host(event)
            yield event
            if kind == "ended":
                return


def _lost(host: str | None, how: str, said: str = "") -> dict[str, Any]:
    event: dict[str, Any] = json.loads(delivery.lost(host, how, said))
    return event


def _unstarted(said: str) -> dict[str, Any]:
    message = (
        "The agent of node 0 was not started. Check the hosts, and the Python that runs the agents there "
        f"(--set agent_python=).{f' What was said last: {said}' if said else ''}"
    )
    event: dict[str, Any] = json.loads(delivery.ended("lost-node", message, 0))
    return event


def _host(event: Mapping[str, Any]) -> str | None:
    """What node 0 calls itself. What is not as it should be is for the collector to say."""
    try:
        return str(event["nodes"][0]["host"])
    except (KeyError, TypeError, IndexError):
        return None


def _read(stream: Iterator[bytes], lines: queue.Queue[bytes | None]) -> None:
    try:
        for line in stream:
            lines.put(line)
    except (OSError, ValueError):
        pass  # closed under our hands: the context was left
    finally:
        lines.put(None)


def event_on(line: bytes) -> dict[str, Any] | None:
    """The event on a line; None for what a launcher's own tools may have printed."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None
