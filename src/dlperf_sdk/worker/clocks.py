"""The three clocks that a runtime can declare, behind one interface: they turn a window into seconds per step.

The loop calls `begin` at the window's start, `step` after each step is enqueued, and `seconds` when the clock has
stopped. Nothing here allocates more than one list entry per step.
"""

from time import monotonic
from typing import Any, Callable, Dict, List

from dlperf_sdk.worker.interface import Runtime


def _differences(stamps: List[float]) -> List[float]:
    return [later - earlier for earlier, later in zip(stamps, stamps[1:])]


class Clock:
    """A stopwatch for the steps of one window."""

    def begin(self, now: float) -> None:
        """Record the start of the window.

        Args:
            now: The time, in seconds of the monotonic clock.
        """
        raise NotImplementedError

    def step(self, loss: Any) -> None:
        """Record that a step has been enqueued.

        Args:
            loss: The handle of the step's loss (`Step.loss`).
        """
        raise NotImplementedError

    def seconds(self, end: float) -> List[float]:
        """Return the seconds of each step, in order; called once, after the window.

        Args:
            end: The end of the window, in seconds of the monotonic clock.
        """
        raise NotImplementedError


class Blocking(Clock):
    """The host's monotonic clock, for frameworks that have finished a step when `Trainer.step` returns.

    Args:
        runtime: Not used.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._stamps: List[float] = []

    def begin(self, now: float) -> None:
        """Record `now`, the start of the window in seconds of the monotonic clock."""
        self._stamps.append(now)

    def step(self, loss: Any) -> None:
        """Record the time: the step has finished, since the framework blocks. `loss` is not used."""
        self._stamps.append(monotonic())

    def seconds(self, end: float) -> List[float]:
        """Return the seconds of each step, in order.

        `end` is not used, since the last `step` has recorded the last time.
        """
        return _differences(self._stamps)


class Lagged(Clock):
    """The host's clock, one step behind: after step i is enqueued, it waits for step i - 1.

    So the device always has one step to do while the host waits.

    Args:
        runtime: The runtime, whose `wait` is called.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._wait = runtime.wait
        self._stamps: List[float] = []
        self._previous: Any = None

    def begin(self, now: float) -> None:
        """Record `now`, the start of the window in seconds of the monotonic clock."""
        self._stamps.append(now)

    def step(self, loss: Any) -> None:
        """Wait until the step before this one has finished, and record the time. The first call only keeps `loss`.

        Args:
            loss: The handle of the step's loss, for which the next call waits.
        """
        if self._previous is not None:
            self._wait(self._previous)
            self._stamps.append(monotonic())
        self._previous = loss

    def seconds(self, end: float) -> List[float]:
        """Return the seconds of each step, in order; the last one ends at `end`, in seconds of the monotonic clock."""
        return _differences(self._stamps + [end])


class Event(Clock):
    """Events of the device, one after each step; the host never waits.

    Args:
        runtime: The runtime, whose `mark` and `elapsed` are called.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._mark, self._elapsed = runtime.mark, runtime.elapsed
        self._marks: List[Any] = []

    def begin(self, now: float) -> None:
        """Record an event of the device at the start of the window; `now` is not used."""
        self._marks.append(self._mark())

    def step(self, loss: Any) -> None:
        """Record an event of the device after the step; `loss` is not used."""
        self._marks.append(self._mark())

    def seconds(self, end: float) -> List[float]:
        """Return the seconds of each step on the device's clock, in order; `end` is not used."""
        return [float(seconds) for seconds in self._elapsed(self._marks)]


CLOCKS: Dict[str, Callable[[Runtime], Clock]] = {"blocking": Blocking, "lagged": Lagged, "event": Event}
"""Method that times a step (`Runtime.clock`) → the clock for one window."""
