"""Read agent 0's stream, and make the events that launchers add to it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dlperf_sdk.worker.agent.link import LONGEST_LINE, MOST_MEMORY
from dlperf_sdk.worker.json_memory import excess_memory

SILENCE_TIMEOUT = 15.0
"""Seconds without an event after which agent 0 counts as lost; it sends a heartbeat every two."""
HEARTBEAT = b'{"event": "heartbeat"}'
"""A heartbeat in a stream, from a launcher that waits for something."""


class LineBuffer:
    """The unfinished line of a stream that is read in parts.

    Joining the parts takes linear time, however long a line is. A line of more than `LONGEST_LINE` bytes (128 MiB) is
    dropped, and an event `ended` with a failure takes its place.
    """

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length = 0

    def may_be_event(self) -> bool:
        """Return True if the unfinished line begins with `{`, as an event does and a shell's greeting does not."""
        return bool(self._parts) and self._parts[0].startswith(b"{")

    def add(self, data: bytes) -> list[bytes]:
        """Append a part of a stream, and return the lines that it completes, without their line feeds."""
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts, self._length = [], 0
        if rest:
            self._parts.append(rest)
            self._length += len(rest)
        if self._length > LONGEST_LINE:
            self._parts, self._length = [], 0
            message = (
                f"Node 0 has printed more than {LONGEST_LINE:,} bytes without a line feed, which no agent does. Check "
                "what the shell and the Python that run the agent print there (--set agent_python=)."
            )
            lines.append(ended_event("invalid-record", message, 0))
        return lines


def parse_event(line: bytes) -> dict[str, Any] | None:
    """Return the event on a line of agent 0's stream; None for any other line, such as one of a launcher's own tools.

    An event is a JSON object whose key `event` has a text, and which takes at most 1 GiB of memory (`MOST_MEMORY`).
    """
    if excess_memory(line, MOST_MEMORY):
        return None
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


def start_failure(line: bytes, nodes: Sequence[int]) -> bytes | None:
    """Return the event `ended` of an agent that cannot join its run; None if the line is anything else.

    Other agents than agent 0 print no other event. What they print is never part of agent 0's stream: the returned
    event is made anew, with the kind `unavailable` and the message on the line.

    Args:
        line: A line that another agent than agent 0, or the shell that starts it, has printed.
        nodes: Numbers of the nodes that the line may come from. If there is only one, the returned event names it. If
            there are several, it names the node that the line names, or none if that is not one of them.
    """
    event = parse_event(line)
    failure = event.get("failure") if event is not None and event["event"] == "ended" else None
    if not isinstance(failure, dict) or not isinstance(failure.get("message"), str):
        return None
    named = failure.get("node")
    node = nodes[0] if len(nodes) == 1 else named if type(named) is int and named in nodes else None
    return ended_event("unavailable", failure["message"], node)


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
