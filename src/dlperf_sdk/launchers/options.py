"""Options that launchers share: where agents listen, which Python runs them, more arguments for a program."""

from __future__ import annotations

import shlex
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.worker.network import port_range


def _validate_ports(_: Any, attribute: Any, value: str) -> None:
    port_range(value)


def _validate_flags(_: Any, attribute: Any, value: str) -> None:
    if not isinstance(value, str):  # for None, shlex would read standard input
        raise TypeError(f"{attribute.name} is {value!r}, not text; leave the option out")
    try:
        shlex.split(value)
    except ValueError as error:
        raise ValueError(
            f"{attribute.name} is {value[:100]!r}, which a shell cannot split into words ({error}); close each quote, "
            "or write \\ before it"
        ) from error


def flags(help: str) -> Any:
    """Return an attrs field for an option that holds more arguments for a program; empty by default.

    Its value must be a text that a shell can split into words.

    Args:
        help: The option's help text.
    """
    return attrs.field(default="", validator=_validate_flags, metadata={"help": help, "executes": True})


@frozen
class AgentOptions:
    """Options of launchers that start agents on other machines."""

    interface: str = attrs.field(
        default="",
        metadata={"help": "Network interface of the workers, instead of the one between the hosts."},
    )
    ports: str = attrs.field(
        default="",
        validator=_validate_ports,
        metadata={
            "help": "FIRST-LAST: the only ports that agents listen on and hand to workers; any free ones otherwise."
        },
    )
    agent_python: str = attrs.field(
        default="python3",
        metadata={"help": "Python 3.7 or later that runs the agent on every node.", "executes": True},
    )
