"""From an engine's stream of bytes to events that can be trusted to end."""

from __future__ import annotations

import json
import math
import queue
import threading
import time
from collections.abc import Generator, Iterator
from typing import Any

from dlperf_sdk.errors import LostNode, TimedOut
from dlperf_sdk.interfaces.topology import Job, Topology

SILENCE = 20.0
"""Seconds without an event after which agent 0 counts as lost; it gives a sign of life every five."""


def events(topology: Topology, job: Job, until: float | None = None) -> Generator[dict[str, Any], None, None]:
    """Launch a job and yield agent 0's events up to `ended`; closing the iterator ends all agents.

    `until` is a time on the monotonic clock after which it is ended, however far it is.

    Raises:
        TimedOut: that time has come.
        Unavailable: the engine cannot place the job.
        LostNode: the stream ended, or fell silent, before the event `ended`.
    """
    with topology.launch(job) as stream:
        lines: queue.Queue[bytes | None] = queue.Queue()
        threading.Thread(target=_read, args=(stream, lines), daemon=True).start()
        said, patience = "", job.patience
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
                raise LostNode(f"The first node's agent has not been heard for {patience:.0f} s.")
            if line is None:
                tail = f" Its last words: {said}" if said else ""
                raise LostNode(f"The first node's agent went away in the middle of the run.{tail}")
            event = event_on(line)
            if event is None:
                continue
            patience = SILENCE
            if event["event"] == "heartbeat":
                continue
            if event["event"] == "diagnostics":
                said = str(event.get("text"))
                continue
            yield event
            if event["event"] == "ended":
                return


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
