"""Conversion of agent 0's events into values: repeats, failures, nodes and notes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dlperf_sdk.documents import schema
from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.errors import FAILURES, DocumentError, InvalidRecord
from dlperf_sdk.results.convert import attempt_from_dict, to_plain
from dlperf_sdk.results.records import Failure, Repeat


def attempt_outcome(event: Mapping[str, Any]) -> Repeat | Failure:
    """Return the finished repeat that an event `attempt-ended` reports, or the failure that it reports.

    If the event's `failure` is None, but its records are missing or invalid, the returned failure has the kind
    `invalid-record`.

    Args:
        event: The event of agent 0, as JSON values: `attempt` (its number), `status` (`ok` or the kind of failure),
            `failure` (an object; None if the attempt did not fail), and the lists `records`, `series` and `exits`.

    Raises:
        DocumentError: The event's failure is not an object, or a field of it breaks the schema `result`.
        KeyError: The key `failure` is missing, or the failure has no `kind` or `message`.
    """
    if event["failure"] is not None:
        return failure_from(event["failure"])
    try:
        return repeat_from(event)
    except DocumentError as error:
        return Failure(InvalidRecord.kind, f"A worker's record breaks the protocol: {error}")


def valid_attempt(event: Mapping[str, Any], failure: Failure) -> dict[str, Any]:
    """Return an event `attempt-ended` of a failed attempt in a form that the store accepts, without invalid parts.

    A valid event that reports a failure is returned as it is. In any other event, `failure` replaces the
    failure, and series, exits and records that break the protocol are left out.

    Args:
        event: The event of agent 0, as JSON values.
        failure: The failure of the attempt, as `attempt_outcome` returns it.
    """
    if event["failure"] is not None and _is_attempt(event):
        return {**event}
    bare = {
        **{"event": event.get("event"), "attempt": event.get("attempt")},
        **{"status": failure.kind, "failure": to_plain(failure), "records": [], "series": [], "exits": []},
    }
    reported = event.get("records")
    records = [
        record
        for record in (reported if isinstance(reported, list) else ())
        if _is_attempt({**bare, "records": [record]}) and record["attempt"] == event.get("attempt")
    ]
    attempt = {**bare, "records": records}
    for name in ("series", "exits"):
        with_part = {**attempt, name: event.get(name)}
        attempt = with_part if _is_attempt(with_part) else attempt
    return attempt


def _is_attempt(plain: Mapping[str, Any]) -> bool:
    try:
        attempt_from_dict(plain)
    except DocumentError:
        return False
    return True


def repeat_from(event: Mapping[str, Any]) -> Repeat:
    """Return the repeat that an event `attempt-ended` of an attempt without a failure reports.

    Args:
        event: The event of agent 0, as JSON values: `attempt` (its number), `status`, `failure`, and the lists
            `records`, `series` and `exits`. Fields that `results.convert.Attempt` lacks are ignored.

    Raises:
        DocumentError: The event breaks its schema, has no record, or has a record that is invalid or of another
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
    """Return the failure that an agent's event reports, as a value.

    An unknown kind of failure becomes `crashed`. If `type` is given, and the kind is not `unsupported`, the message
    gets the rank, node and phase in front, and advice at the end.

    Args:
        plain: The field `failure` of the event, as JSON values. `kind` and `message` are texts. `phase`, `node` (its
            index), `rank`, `type` (class of the exception) and `traceback` may be missing or None.

    Raises:
        DocumentError: The failure is not an object, or a field of it breaks the schema `result`.
        KeyError: `kind` or `message` is missing.
    """
    if not isinstance(plain, Mapping):
        raise DocumentError(f"The failure is {format_value(plain)}; expected an object.")
    if not isinstance(plain["kind"], str):
        raise DocumentError(f"The kind of the failure is {format_value(plain['kind'])}; expected a text.")
    kind = plain["kind"] if plain["kind"] in FAILURES else "crashed"
    known = {key: plain.get(key) for key in ("phase", "node", "rank", "type", "traceback")}
    schema.check("result", {"kind": kind, "message": plain["message"], **known}, "failure")
    return Failure(kind=kind, message=_sentence(plain), **known)


def nodes_from(event: Mapping[str, Any], count: int) -> tuple[Mapping[str, Any], ...]:
    """Return the description of each node in an event `agents-ready`, in the order of the node indexes.

    Args:
        event: The event of agent 0; its `nodes` is a list with one object per node, from names of facts to values.
        count: Number of nodes of the case.

    Raises:
        DocumentError: The event's `nodes` is not a list of `count` objects, or a value in one is impossible: a text
            that is not printable, a number below 0 or above 2^63, or a `host`, `kernel`, `architecture`, `memory`,
            `cpu` or `load` of another type than agents report.
        KeyError: The event has no `nodes`.
    """
    nodes = event["nodes"]
    if not (
        isinstance(nodes, list) and len(nodes) == count and all(isinstance(node, Mapping) for node in nodes)
    ):
        raise DocumentError(
            f"The nodes describe themselves as {format_value(nodes)}; expected {count} objects."
        )
    for node in nodes:
        _check_facts(node, "node")
        for name, kind in _NODE_FACTS.items():
            if not isinstance(node.get(name), kind | None):
                raise DocumentError(f"The {name} of a node is {format_value(node[name])}.")
        if not isinstance((node.get("cpu") or {}).get("model"), str | None):
            raise DocumentError(f"The model of a node's cpu is {format_value(node['cpu']['model'])}.")
    return tuple(nodes)


_NODE_FACTS: Mapping[str, type] = {
    "host": str,
    "kernel": str,
    "architecture": str,
    "memory": int,
    "cpu": Mapping,
    "load": list,
}
"""Facts of a node's description that are used → their types. Each may be missing or null."""
_LARGEST_FACT = 2.0**63
"""No amount of anything on a node is larger, be it bytes, hertz or seconds."""


def _check_facts(value: Any, name: str) -> None:
    """Check all values in a node's description: printable texts, numbers from 0 to 2^63.

    Raises:
        DocumentError: A value is impossible.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            _check_facts(item, key)
    elif isinstance(value, list):
        for item in value:
            _check_facts(item, name)
    elif isinstance(value, str):
        if not value.isprintable():
            raise DocumentError(f"The {name} of a node is not printable: {format_value(value)}.")
    elif isinstance(value, int | float) and not 0 <= value <= _LARGEST_FACT:  # false for NaN
        raise DocumentError(f"The {name} of a node is {format_value(value)}.")


def text_from(event: Mapping[str, Any]) -> str:
    """Return the text of an event `note`, in which agent 0 reports a remark for the result.

    Raises:
        DocumentError: The event's `text` is not a string.
        KeyError: The event has no `text`.
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
