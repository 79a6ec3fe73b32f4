"""Declaration of what the events of a framework's profiler stand for, by which the core summarizes a trace."""

from __future__ import annotations

import re
from collections.abc import Iterable

from attrs import field, frozen


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text)


@frozen
class Events:
    r"""Events of a trace in Chrome's format, selected by regular expressions that must match a text completely.

    An event is selected if all patterns match. If the pattern `name` has a group, the text of its first group replaces
    the event's name in the summary, without parts that vary: `r"(.+?)(?:\.\d+)?"` takes `fusion` from `fusion.12`.

    Raises:
        re.error: A pattern is not a regular expression.
    """

    name: re.Pattern[str] = field(converter=_pattern, default=".*")
    """The event's name (`name`)."""
    category: re.Pattern[str] = field(converter=_pattern, default=".*")
    """The event's category (`cat`); empty for none."""
    process: re.Pattern[str] = field(converter=_pattern, default=".*")
    """The name of the event's process, which a metadata event `process_name` gives to a `pid`; empty for none."""
    argument: str = ""
    """An argument (`args`) that the event must have; empty for none."""


def _events(value: Events | Iterable[Events]) -> tuple[Events, ...]:
    return (value,) if isinstance(value, Events) else tuple(value)


@frozen
class TraceEvents:
    """The meanings of the events of a framework's profiler. All others, such as Python functions, are ignored."""

    operators: tuple[Events, ...] = field(converter=_events)
    """Operators on the host. On a CPU, they are the work of the device."""
    communication: tuple[Events, ...] = field(converter=_events, default=())
    """Gradient synchronization. These events are no work, even if `operators` or `device` selects them, too. In a trace
    without them, the time of communication is unknown."""
    device: tuple[Events, ...] = field(converter=_events, default=())
    """Work of an accelerator, such as kernels and copies. Without them, a trace of an accelerator has no summary."""
