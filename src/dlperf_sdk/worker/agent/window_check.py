"""Check the window in a worker's record against the phases that its agent saw on its own clock.

The process that writes a record is the one that the record describes. A plugin that sets back the interpreter's
clock, or rewrites its record when it stops, contradicts these phases. Only lengths are compared, so the two clocks
need not count from the same moment.
"""

from typing import Any, Optional

SLACK = 1.0
"""Seconds that may pass between the start of phase `measure` and the worker's reading of its clock, and again at
the end of the window: the worker can lose its processor to other processes there."""


class WindowCheck:
    """Times, on the agent's clock, at which the agent saw the phases of one worker's window."""

    def __init__(self) -> None:
        self._released_at: Optional[float] = None
        self._started_at: Optional[float] = None
        self._last: Optional[float] = None
        self._finished_at: Optional[float] = None

    def release(self, now: float) -> None:
        """Record that the worker was allowed to begin its window.

        Args:
            now: The time, in seconds of the monotonic clock.
        """
        self._released_at = self._started_at = now

    def observe_phase(self, phase: str, before: float, after: float) -> None:
        """Record the phase that the worker reported.

        Args:
            phase: One of `progress.PHASES`.
            before: The time before the phase was read, in seconds of the monotonic clock.
            after: The time after it was read, in the same seconds.
        """
        if phase == "ready" and self._released_at is not None and self._last is None:
            self._started_at = before  # it was released, but has not run since
        elif phase == "measure":
            self._last = before
        elif phase in ("verify", "teardown", "done") and self._finished_at is None:
            self._finished_at = after

    def find_contradiction(self, window: Any) -> Optional[str]:
        """Return why the window of the worker's record is impossible by the agent's clock; None if it is possible.

        The reason is a clause without a full stop.

        Args:
            window: The record's window, with `start` and `end` in seconds of the worker's clock. A malformed window
                counts as possible: other checks report it.
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
