"""From the lines of single iterations to a throughput: the window that a log is measured in."""

from __future__ import annotations

import math

from attrs import define, field, frozen

from dlperf_sdk.errors import DocumentError
from dlperf_sdk.exchange.importers.reading import Log

WARMUP, STEPS = 20, 100
"""DLPerf's own rule: 20 iterations are skipped, 100 measured."""

HOW = {
    "elapsed-between-lines": "samples of the window's iterations over the time between the two log lines at its "
    "ends, as the host stamped them",
    "summed-step-times": "samples of the window's iterations over the sum of the times that the log gives them",
    "mean-of-rates": "arithmetic mean of the rates that the log gives for the window's iterations, which is too "
    "high where they differ",
}
"""The estimators, in a sentence each."""


@frozen
class Tick:
    """What a line says of an iteration; at least one of the three is there."""

    iteration: int
    stamp: float | None = None
    """When the line was written, in seconds."""
    seconds: float | None = None
    """How long the iterations took that the line covers."""
    covers: int = 1
    rate: float | None = None
    """Samples of all devices per second."""


@define
class LogWindow:
    """The iterations from the first line after the warm-up to `steps` later.

    Only the first epoch counts, and only what lies in the window is kept, however long the log is.
    """

    log: Log
    warmup: int = WARMUP
    steps: int = STEPS
    _ticks: list[tuple[int, Tick]] = field(factory=list)
    _last: tuple[int, Tick] | None = None

    def take(self, line: int, tick: Tick) -> None:
        """The next line about an iteration of the first epoch.

        Raises:
            DocumentError: it is of the same iteration as the line before, or of an earlier one; or a number in it
                is none.
        """
        for value in (tick.stamp, tick.seconds, tick.rate):
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise self.log.wrong(line, f"{value} is no time and no rate of iteration {tick.iteration}")
        if self._last is not None and tick.iteration <= self._last[1].iteration:
            raise self.log.wrong(
                line,
                f"iteration {tick.iteration} comes after iteration {self._last[1].iteration} of line "
                f"{self._last[0]}. The log holds the lines of several processes or runs; import those of one",
            )
        self._last = (line, tick)
        if self.complete or tick.iteration < self.warmup - 1:
            return
        self._ticks.append((line, tick))

    @property
    def complete(self) -> bool:
        """Whether the window's end has come."""
        return bool(self._ticks) and self._ticks[-1][1].iteration >= self._ticks[0][1].iteration + self.steps

    def throughput(self, global_batch: int) -> tuple[float, str]:
        """Samples per second, and the estimator: by the lines' stamps, else by their times, else by their rates.

        Raises:
            DocumentError: the log ends before the window does, or leaves out iterations that are needed.
        """
        first, last = self._edges()
        if first.stamp is not None and last.stamp is not None:
            return self._over(last.stamp - first.stamp, global_batch), "elapsed-between-lines"
        inside = self._ticks[1:]
        if all(tick.seconds is not None for _, tick in inside):
            reached = first.iteration
            for line, tick in inside:
                if tick.iteration - tick.covers != reached:
                    raise self.log.wrong(
                        line,
                        f"the time of iteration {reached + 1} is missing before iteration {tick.iteration}",
                    )
                reached = tick.iteration
            seconds = math.fsum(tick.seconds for _, tick in inside if tick.seconds is not None)
            return self._over(seconds, global_batch), "summed-step-times"
        rates = [tick.rate for _, tick in inside if tick.rate is not None]
        if len(rates) < len(inside) or not math.fsum(rates):
            raise DocumentError(
                f"{self.log.path}: between iterations {first.iteration} and {last.iteration} rates are missing."
            )
        return math.fsum(rates) / len(rates), "mean-of-rates"

    def _edges(self) -> tuple[Tick, Tick]:
        if self._last is None:
            raise self.log.lacks("a line about an iteration that this importer knows")
        if not self._ticks:
            raise self.log.lacks(
                f"{self.warmup} iterations of warm-up: it comes to iteration {self._last[1].iteration}. "
                "Skip fewer with --set warmup=N"
            )
        (_, first), (line, last) = self._ticks[0], self._ticks[-1]
        if not self.complete:
            raise self.log.lacks(
                f"iteration {first.iteration + self.steps}, the end of the window: it comes to iteration "
                f"{last.iteration}. Measure fewer with --set steps=N"
            )
        if last.iteration != first.iteration + self.steps:
            raise self.log.wrong(
                line,
                f"the window of {self.steps} iterations begins at {first.iteration}, but there is no line for its "
                f"end: {last.iteration} is the next. Choose steps that the log has lines for, with --set steps=N",
            )
        return first, last

    def _over(self, seconds: float, global_batch: int) -> float:
        if not seconds > 0:
            raise DocumentError(f"{self.log.path}: the window of {self.steps} iterations took {seconds} s.")
        return self.steps * global_batch / seconds
