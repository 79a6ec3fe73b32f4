"""Time a worker's window from outside, by its agent: the record must agree.

A record is written by the process that it praises. A plugin that puts back the interpreter's clock, or writes its
record anew when it stops, is contradicted by the phases that the agent has seen go by on its own clock. Only lengths
are compared, so the two clocks need not count from the same moment.
"""

from typing import Any, Optional

SLACK = 1.0
"""Seconds that a worker may lie still between saying that it begins and reading its clock, and between reading it
again and saying that the window is over: it can lose its processor there to others."""


class WindowCheck:
    """Times at which one agent saw the phases of one worker's window; all are seconds of the agent's clock."""

    def __init__(self) -> None:
        self._released_at: Optional[float] = None
        self._started_at: Optional[float] = None
        self._last: Optional[float] = None
        self._finished_at: Optional[float] = None

    def release(self, now: float) -> None:
        """Record that the worker may begin its window at `now`, in seconds of the monotonic clock."""
        self._released_at = self._started_at = now

    def observe_phase(self, phase: str, before: float, after: float) -> None:
        """Record the phase of the worker between the readings `before` and `after` of the monotonic clock."""
        if phase == "ready" and self._released_at is not None and self._last is None:
            self._started_at = before  # it has been told, and has not been given a processor yet
        elif phase == "measure":
            self._last = before
        elif phase in ("verify", "teardown", "done") and self._finished_at is None:
            self._finished_at = after

    def contradicts(self, window: Any) -> Optional[str]:
        """Return the reason that a record's window is impossible by the agent's clock; None if it is possible.

        `window` has `start` and `end`, seconds of the worker's clock. Other checks report a malformed window.
        """
        try:
            seconds = float(window["end"]) - float(window["start"])
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        if self._released_at is None or self._started_at is None:
            return None
        if self._last is not None and seconds < self._last - self._started_at - SLACK:
            message = (
                "its record has a window of %.3f s, and %.3f s after it could begin its agent saw it measure"
            )
            return message % (seconds, self._last - self._started_at)
        if self._finished_at is not None and seconds > self._finished_at - self._released_at:
            message = (
                "its record has a window of %.3f s, and its agent saw it end %.3f s after it was told to go"
            )
            return message % (seconds, self._finished_at - self._released_at)
        return None
