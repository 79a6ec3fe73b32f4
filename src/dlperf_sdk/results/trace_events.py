"""Reading of a profiler's trace in Chrome's format, as data from outside.

The format is the "Trace Event Format" of Chrome and Perfetto. Complete events (`X`), begins and ends with a name (`B`,
`E`), and the names of processes (`M`) are read; all others are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dlperf_sdk.documents.json_values import format_value, replace_control_characters
from dlperf_sdk.documents.reading import parse_json, unpack_gzip
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.interfaces.trace import Events
from dlperf_sdk.results.intervals import Interval

LARGEST_TRACE = 144 * 1024 * 1024
"""Maximum size of an unpacked trace in bytes; to unpack it takes twice as much memory."""
LONGEST_NAME = 200
"""Maximum length of an event's name in characters; longer ones are cut. Kernels have names of kilobytes."""
_LARGEST_TIME = 1e18
"""Maximum of a time or duration in microseconds: 30,000 years. Sums and differences of such numbers are finite."""


class Trace:
    """The events of one trace.

    Args:
        packed: The content of the trace's file, compressed with gzip.
        source: Name of the file in messages.

    Raises:
        DocumentError: The file cannot be unpacked, is too large or would need too much memory, is not strict JSON, or
            holds no list of events.
    """

    def __init__(self, packed: bytes, source: str) -> None:
        document = parse_json(unpack_gzip(packed, LARGEST_TRACE, source), source)
        events = document.get("traceEvents") if isinstance(document, dict) else document
        if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
            raise DocumentError(
                f'{source} is no trace in Chrome\'s format: it must hold a list "traceEvents" of objects.'
            )
        self._source = source
        times = (event.get("ts") for event in events)
        # Times since 1970 in microseconds leave too few digits for those of short events.
        self._origin = next((time for time in times if _is_time(time)), 0)
        self._events: list[dict[str, Any]] = events
        self._processes = {
            _identifier(event, "pid"): str(_arguments(event).get("name", ""))[:LONGEST_NAME]
            for event in events
            if event.get("ph") == "M" and event.get("name") == "process_name"
        }

    def select(self, selections: Sequence[Events], excluded: Sequence[Events] = ()) -> list[Interval]:
        """Return the events that one of `selections` and none of `excluded` matches, as intervals.

        Args:
            selections: Patterns of events to select. The first one that matches determines the interval's name.
            excluded: Patterns of events to leave out, even if they are selected.

        Returns:
            The intervals in the order of the file. `start` and `end` are in seconds since the file's first valid time;
            `track` is the pair of process and thread. A begin event and its end event (`ph` B and E) make one interval,
            in the place of the end event; an event without its counterpart is left out.

        Raises:
            DocumentError: An event that is selected has no valid time or duration, or ends before it starts.
        """
        intervals = []
        for begin, end in self._timed_events():
            name = self._match(begin, selections)
            if name is None or self._match(begin, excluded) is not None:
                continue
            start = self._number(begin, "ts") - self._origin
            stop = (
                start + self._number(begin, "dur") if end is begin else self._number(end, "ts") - self._origin
            )
            if stop < start:
                raise DocumentError(f"{self._source}: the event {format_value(name)} ends before it starts.")
            track = (_identifier(begin, "pid"), _identifier(begin, "tid"))
            intervals.append(Interval(start / 1e6, stop / 1e6, name, track))
        return intervals

    def _timed_events(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Yield the event that begins an interval with the one that ends it: the same one for complete events."""
        stacks: dict[tuple[int | str, ...], list[dict[str, Any]]] = {}
        for event in self._events:
            phase = event.get("ph")
            if phase == "X":
                yield event, event
            elif phase in ("B", "E"):
                key = tuple(_identifier(event, field) for field in ("pid", "tid", "name"))
                stack = stacks.setdefault(key, [])
                if phase == "B":
                    stack.append(event)
                elif stack:
                    yield stack.pop(), event

    def _match(self, event: Mapping[str, Any], selections: Sequence[Events]) -> str | None:
        """Return the name that the first matching selection gives to an event; None if none of them matches."""
        name, category = str(event.get("name", ""))[:LONGEST_NAME], str(event.get("cat", ""))[:LONGEST_NAME]
        process = self._processes.get(_identifier(event, "pid"), "")
        for selection in selections:
            match = selection.name.fullmatch(name)
            if (
                match
                and selection.category.fullmatch(category)
                and selection.process.fullmatch(process)
                and (not selection.argument or selection.argument in _arguments(event))
            ):
                return replace_control_characters(match[1] if match.re.groups and match[1] else name)
        return None

    def _number(self, event: Mapping[str, Any], field: str) -> float:
        """Return a time or duration of an event, in microseconds."""
        value: Any = event.get(field)
        if not _is_time(value):
            raise DocumentError(
                f"{self._source}: the event {format_value(event.get('name'))} has the value {format_value(value)} for "
                f"{field!r}; it must be a number of microseconds."
            )
        time: float = value
        return time


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST_TIME


def _arguments(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an event's arguments; empty if they are no object."""
    arguments = event.get("args")
    return arguments if isinstance(arguments, dict) else {}


def _identifier(event: Mapping[str, Any], field: str) -> int | str:
    """Return a number or text that tells events apart, such as the process; an empty text without a valid one."""
    value = event.get(field)
    return value if isinstance(value, int | str) else ""
