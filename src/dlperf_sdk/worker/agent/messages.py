"""Check the messages of agents to the coordinator, so that a malformed one is a failure of the node that sent it."""

import re
from typing import Any, Dict, Mapping, Tuple, Union

from dlperf_sdk.worker.agent.log_pieces import LONGEST_PIECE
from dlperf_sdk.worker.failures import KINDS

MOST_PIECES = 64
"""Maximum number of pieces of one process's log."""
_MOST_NOTES = 100
"""Maximum number of notes about the devices of one node."""
_LONGEST_NAME = 200
_ADDRESS = re.compile(r"([0-9]{1,3}\.){3}[0-9]{1,3}\Z")
_PORT = re.compile(r"[0-9]{1,5}\Z")
_Types = Union[type, Tuple[type, ...]]
_FIELDS: Mapping[str, Mapping[str, _Types]] = {
    "hello": {"facts": dict, "address": str},
    "reached": {"unreached": list},
    "prepared": {
        "devices": list,
        "ports": list,
        "notes": list,
        "interface": str,
        "needs_table": bool,
    },
    "unprepared": {"message": str},
    "worker-started": {"attempt": int, "name": str, "pid": int},
    "progress": {"attempt": int, "rank": (int, type(None)), "phase": str, "step": int},
    "ready": {"trainers": int},
    "failed": {"failure": dict},
    "exhausted": {"failure": dict},
    "ended": {"failures": list, "records": list, "exits": list, "series": list, "logs": int},
    "log": {"name": str, "text": str},
    "heartbeat": {},
    "gone": {},
    "silent": {},
}
"""Event → the types of the fields that the coordinator uses."""
_OPTIONAL: Mapping[str, _Types] = {"doorbell": int, "versions": dict, "unfit": dict}
"""The same of fields that only a `hello` has, and not each."""
_TYPES = {dict: "an object", list: "a list", str: "a text", int: "an integer", bool: "true or false"}


def check_message(message: Dict[str, Any], most_processes: int) -> None:
    """Check a message of an agent; in its failures, set the node to the one that sent the message.

    Records, facts and other values that the coordinator only passes on are not checked: the controller does that.

    Args:
        message: The message, whose `node` is the number of the node that sent it.
        most_processes: Maximum number of processes that a node may have.

    Raises:
        ValueError: The message is malformed. The error's message is a clause such as "`records` must be a list".
    """
    event = message.get("event")
    fields = _FIELDS.get(event) if isinstance(event, str) else None
    if fields is None:
        raise ValueError("`event` is %.40r" % (event,))
    for name, types in fields.items():
        _check_type(name, message.get(name), types)
    if event == "hello":
        _check_hello(message)
    elif event == "prepared":
        if not all(isinstance(item, str) for name in ("devices", "ports", "notes") for item in message[name]):
            raise ValueError("`devices`, `ports` and `notes` must have texts")
        if not all(_PORT.match(port) for port in message["ports"]):
            raise ValueError("`ports` must have numbers of ports")
        if not all(item.isprintable() for item in [message["interface"]] + message["devices"]):
            raise ValueError("`interface` and `devices` must be printable")
        if len(message["notes"]) > _MOST_NOTES:
            raise ValueError("`notes` has more than %d notes" % _MOST_NOTES)
    elif event == "reached" and not all(isinstance(node, int) for node in message["unreached"]):
        raise ValueError("`unreached` must have integers")
    elif event in ("failed", "exhausted"):
        message["failure"] = _check_failure(message["failure"], message["node"])
    elif event == "ended":
        message["failures"] = [_check_failure(item, message["node"]) for item in message["failures"]]
        if not all(isinstance(item, dict) for item in message["records"] + message["exits"]):
            raise ValueError("`records` and `exits` must have objects")
        if len(message["exits"]) > most_processes:
            raise ValueError("`exits` has more processes than a node may have")
        if not 0 <= message["logs"] <= MOST_PIECES * most_processes:
            raise ValueError("`logs` is no possible number of pieces")
    elif event == "log" and (len(message["text"]) > LONGEST_PIECE or len(message["name"]) > _LONGEST_NAME):
        raise ValueError("a piece of a log or its name is too long")


def _check_type(name: str, value: Any, types: _Types) -> None:
    if not isinstance(value, types):
        expected = types if isinstance(types, type) else types[0]
        raise ValueError("`%s` must be %s" % (name, _TYPES[expected]))


def _check_hello(message: Dict[str, Any]) -> None:
    for name, types in _OPTIONAL.items():
        if message.get(name) is not None:
            _check_type(name, message[name], types)
    if not _ADDRESS.match(message["address"]):
        raise ValueError("`address` must be an IPv4 address")
    for name in ("host", "boot_id"):
        _check_type("facts." + name, message["facts"].get(name, ""), (str, type(None)))
    if not isinstance((message.get("versions") or {}).get("packages", {}), dict):
        raise ValueError("`versions.packages` must be an object")
    if message.get("unfit"):
        message["unfit"] = _check_failure(message["unfit"], message["node"])


def _check_failure(reported: Any, node: int) -> Dict[str, Any]:
    """Return a failure of a node's agent, with the node's number."""
    if not isinstance(reported, dict) or not isinstance(reported.get("message"), str):
        raise ValueError("a failure must have a `message`")
    if reported.get("kind") not in KINDS:
        raise ValueError("a failure has the kind %.40r" % (reported.get("kind"),))
    _check_type("phase", reported.get("phase"), (str, type(None)))
    _check_type("rank", reported.get("rank"), (int, type(None)))
    return dict(reported, node=node)
