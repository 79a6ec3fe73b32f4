"""Conversion of agent 0's events into values: repeats, failures, nodes and notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlperf_sdk.documents import schema
from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.errors import FAILURES, DocumentError, InvalidRecord
from dlperf_sdk.results.convert import attempt_from_dict
from dlperf_sdk.results.records import Failure, Repeat


def attempt_outcome(event: Mapping[str, Any]) -> Repeat | Failure:
    """Return the finished repeat of an event `attempt-ended`, or its failure.

    An event without a failure must have valid records. Otherwise the function returns a failure of the kind
    `invalid-record`.

    Raises:
        DocumentError: a field of the event's failure has an impossible value.
        KeyError: the event or its failure lacks a field.
    """
    if event["failure"] is not None:
        return failure_from(event["failure"])
    try:
        return repeat_from(event)
    except DocumentError as error:
        return Failure(InvalidRecord.kind, f"A worker's record breaks the protocol: {error}")


def repeat_from(event: Mapping[str, Any]) -> Repeat:
    """Return the repeat of an event `attempt-ended` without a failure.

    Raises:
        DocumentError: the event breaks its schema, has no record, or has a record that is invalid or of another
            attempt.
    """
    repeat = attempt_from_dict(event).repeat
    if not repeat.records:
        raise DocumentError(f"Attempt {repeat.attempt} ended without a failure, but has no record.")
    for record in repeat.records:
        if record.attempt != repeat.attempt:
            raise DocumentError(
                f"Rank {record.rank} wrote a record of attempt {record.attempt} in attempt {repeat.attempt}."
            )
    return repeat


def failure_from(plain: Mapping[str, Any]) -> Failure:
    """Return the failure that an agent's event reports.

    An unknown kind of failure becomes `crashed`. If a `type` is given, and the kind is not `unsupported`, the message
    is extended by rank, node, phase and advice.

    Args:
        plain: The event's `failure`: `kind` and `message`; `phase`, `node`, `rank`, `type` and `traceback` may be
            missing.

    Raises:
        DocumentError: a field has an impossible value.
        KeyError: `kind` or `message` is missing.
    """
    kind = plain["kind"] if plain["kind"] in FAILURES else "crashed"
    known = {key: plain.get(key) for key in ("phase", "node", "rank", "type", "traceback")}
    schema.check("result", {"kind": kind, "message": plain["message"], **known}, "failure")
    return Failure(kind=kind, message=_sentence(plain), **known)


def nodes_from(event: Mapping[str, Any], count: int) -> tuple[Mapping[str, Any], ...]:
    """Return the description of each node in an event `agents-ready`, by node index.

    Raises:
        DocumentError: the event's `nodes` is not a list of `count` objects.
        KeyError: the event has no `nodes`.
    """
    nodes = event["nodes"]
    if not (
        isinstance(nodes, list) and len(nodes) == count and all(isinstance(node, Mapping) for node in nodes)
    ):
        raise DocumentError(
            f"The nodes describe themselves as {format_value(nodes)}; expected {count} objects."
        )
    return tuple(nodes)


def text_from(event: Mapping[str, Any]) -> str:
    """Return the text of an event `note`.

    Raises:
        DocumentError: the event's `text` is not a string.
        KeyError: the event has no `text`.
    """
    if not isinstance(event["text"], str):
        raise DocumentError(f"The text of a note is {format_value(event['text'])}.")
    return event["text"]


def _sentence(plain: Mapping[str, Any]) -> str:
    """Return a message that says what failed, where, and what to do."""
    message = str(plain["message"]).strip()
    message += "" if message.endswith((".", "!", "?")) else "."
    if not plain.get("type"):
        return message
    location = f"Rank {plain.get('rank')} on node {plain.get('node')}, in phase '{plain.get('phase')}'"
    if plain["kind"] == "out-of-memory":
        advice = "Use a smaller batch size, or, where the plugin offers it, accumulate gradients over micro-batches."
        return f"{location}, ran out of memory: {message} {advice}"
    if plain["kind"] == "unsupported":
        return message
    return f"{location}, raised {plain['type']}: {message} The rank's log has the traceback."
