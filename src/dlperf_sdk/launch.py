"""From an engine's stream of bytes to events that can be trusted to end."""

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
from dlperf_sdk.topologies import delivery

UNSTARTED = ("waiting", "case")
"""Events from before the agents are there: an engine that waits for its turn, and what a batch job says of itself."""


def events(topology: Topology, job: Job, until: float | None = None) -> Generator[dict[str, Any], None, None]:
    """Launch a job and yield agent 0's events up to `ended`; closing the iterator ends all agents.

    `until` is a time on the monotonic clock after which it is ended, however far it is. Where the stream ends, or
    falls silent, before agent 0 has said `ended`, that event is made here: node 0 is lost.

    Raises:
        TimedOut: that time has come.
        Unavailable: the engine cannot place the job.
    """
    with topology.launch(job) as stream:
        lines: queue.Queue[bytes | None] = queue.Queue()
        threading.Thread(target=_read, args=(stream, lines), daemon=True).start()
        said, patience, host = "", job.patience, None
        while True:
            left = math.inf if until is None else until - time.monotonic()
            heard = True
            try:
                line = lines.get(timeout=max(0.0, min(patience, left)))
            except queue.Empty:
                heard = False
            if until is not None and time.monotonic() >= until:
                raise TimedOut("The case's time limit has passed, and its workers were ended.")
            if not heard:
                yield _lost(host, f"has not been heard for {patience:.0f} s")
                return
            if line is None:
                yield _lost(host, "went away in the middle of the run", said)
                return
            event = event_on(line)
            if event is None:
                continue
            if event["event"] not in UNSTARTED:
                patience = delivery.SILENCE
            if event["event"] in ("heartbeat", "waiting"):
                continue
            if event["event"] == "diagnostics":
                said = str(event.get("text"))
                continue
            if event["event"] == "agents-ready":
                host = _host(event)
            yield event
            if event["event"] == "ended":
                return


def _lost(host: str | None, how: str, said: str = "") -> dict[str, Any]:
    event: dict[str, Any] = json.loads(delivery.lost(host, how, said))
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
    """The event on a line; None for what an engine's own tools may have printed."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None
