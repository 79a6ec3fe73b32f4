"""Read agent 0's stream, and make the events that launchers add to it."""

from __future__ import annotations

import json
from typing import Any

SILENCE_TIMEOUT = 15.0
"""Seconds without an event after which agent 0 counts as lost; it sends a heartbeat every two."""
HEARTBEAT = b'{"event": "heartbeat"}'
"""A heartbeat in a stream, from a launcher that waits for something."""


class LineBuffer:
    """The unfinished line of a stream that is read in parts.

    Joining the parts takes linear time, however long a line is.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def is_empty(self) -> bool:
        """Return True if no line is unfinished."""
        return not self._parts

    def add(self, data: bytes) -> list[bytes]:
        """Append a part of a stream, and return the lines that it completes, without their line feeds."""
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts = []
        if rest:
            self._parts.append(rest)
        return lines


def parse_event(line: bytes) -> dict[str, Any] | None:
    """Return the event on a line of agent 0's stream; None for any other line, such as one of a launcher's own tools.

    An event is a JSON object whose key `event` has a text.
    """
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) and isinstance(event.get("event"), str) else None


def ended_event(kind: str, message: str, node: int | None = None) -> bytes:
    """Return an event `ended`, the last of a stream, for a failure that the launcher detected.

    The event is a line of JSON in bytes, without line feed.

    Args:
        kind: The kind of failure, such as `lost-node`, which is also the event's `status`.
        message: What happened, and what to do next.
        node: Number of the node on which it happened; None if unknown.
    """
    failure = {"kind": kind, "message": message, "phase": None, "node": node, "rank": None}
    return json.dumps({"event": "ended", "status": kind, "failure": failure}).encode()


def lost_node_event(host: str | None, reason: str, output: str) -> bytes:
    """Return an event `ended`, the last of a stream, for a run whose agent 0 was lost.

    The event is a line of JSON in bytes, without line feed; its failure has the kind `lost-node`, and the node 0.

    Args:
        host: The name of agent 0's node; None if unknown.
        reason: The predicate of a sentence about the agent, such as "ended in the middle of the run".
        output: The end of what was written to standard error; empty if nothing was.
    """
    name = f"node 0 ({host})" if host else "node 0"
    tail = f" Last output: {output}" if output else ""
    message = (
        f"The agent of {name} {reason}. Every node's workers end themselves; finished repeats are kept.{tail}"
    )
    return ended_event("lost-node", message, 0)


def is_lost_node(line: bytes) -> bool:
    """Return True if a line is the last event of a stream, `ended`, with the status `lost-node`."""
    return _final_status(line) == "lost-node"


def is_abrupt_end(line: bytes) -> bool:
    """Return True if a line is the last event of a stream, `ended`, with the status `lost-node` or `crashed`.

    An agent reports such an end, too, if a scheduler ends the nodes and workers of a job one after another.
    """
    return _final_status(line) in ("lost-node", "crashed")


def _final_status(line: bytes) -> str | None:
    event = parse_event(line) if b'"ended"' in line else None
    return event.get("status") if event is not None and event["event"] == "ended" else None
