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


def option(
    help: str, default: Any = "", *, validator: Any = None, executes: bool = False, reads: bool = False
) -> Any:
    """Return an attrs field for an option of a launcher.

    Args:
        help: The option's help text.
        default: The option's default value.
        validator: A validator of attrs; None for any value.
        executes: True if the option's value names a program or arguments of one.
        reads: True if the option's value names a file.
    """
    metadata = {"help": help, "executes": executes, "reads": reads}
    return attrs.field(default=default, validator=validator, metadata=metadata)


def flags(help: str) -> Any:
    """Return an attrs field for an option that holds further arguments for a program; empty by default.

    The option's value must be a text that a shell can split into words; otherwise creating the options raises
    TypeError or ValueError.

    Args:
        help: The option's help text.
    """
    return option(help, validator=_validate_flags, executes=True)


@frozen
class AgentOptions:
    """Options of launchers that start agents on other machines.

    Raises:
        ValueError: `ports` is not a range of ports.
    """

    interface: str = option("Network interface of the workers, instead of the one between the hosts.")
    ports: str = option(
        "FIRST-LAST: the only ports that agents listen on and hand to workers; any free ones otherwise.",
        validator=_validate_ports,
    )
    agent_python: str = option(
        "Python 3.7 or later that runs the agent on every node.", "python3", executes=True
    )
