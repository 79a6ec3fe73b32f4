"""Compute a throughput from the lines of a log about single iterations: the window, and its estimators."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import define, field, frozen

from dlperf_sdk.errors import DocumentError
from dlperf_sdk.interfaces.importer import Log
from dlperf_sdk.worker.estimate import median

WARMUP, STEPS = 20, 100
"""Iterations to skip and to measure by default, as DLPerf's rule has them."""

ESTIMATOR = {
    "elapsed-between-lines": "samples of the window's iterations over the time between the two log lines at its "
    "ends, as the host stamped them",
    "summed-step-times": "samples of the window's iterations over the sum of the times that the log gives them",
    "mean-of-rates": "arithmetic mean of the rates that the log gives for the window's iterations, which is too "
    "high where they differ",
}
"""Name of an estimator → its description."""

OF_RANKS = {
    "elapsed-between-lines": "each end is the last line that a rank wrote of its iteration",
    "summed-step-times": "of every iteration the mean over the ranks",
    "mean-of-rates": "of every iteration the median over the ranks, as DLPerf does",
}
"""Name of an estimator → how it treats the lines of several ranks in one log."""


@frozen
class Tick:
    """The content of a line of a log about an iteration: a time stamp, a duration or a rate."""

    iteration: int
    """Number of the iteration in its epoch."""
    stamp: float | None = None
    """Time at which the line was written, in seconds since any fixed moment; None if the line has no stamp."""
    seconds: float | None = None
    """Duration of the iterations that the line covers; None if it is not stated."""
    covers: int = 1
    """Number of iterations that the line covers, up to `iteration`."""
    rate: float | None = None
    """Samples of all devices per second; None if it is not stated."""


@frozen
class Estimate:
    """The throughput over a window of a log, and how it was estimated."""

    throughput: float
    """Samples of all devices per second."""
    estimator: str
    """Name of the estimator, a key of `ESTIMATOR`."""
    description: str
    """The estimator and the window in a sentence."""


@define
class LogWindow:
    """The window of a log: `steps` iterations that follow the first line after the warm-up.

    The caller passes the lines of one epoch to `take`, in their order. Only lines in the window are kept, however long
    the log is.
    """

    log: Log
    """The log, for messages of errors."""
    warmup: int = WARMUP
    """Number of iterations to skip."""
    steps: int = STEPS
    """Number of iterations to measure."""
    ranks: frozenset[int] = frozenset({1})
    """Possible numbers of ranks whose lines the log holds; each iteration of the window has one line of each of these
    ranks.

    The order of the lines tells several ranks from several runs: all ranks begin the window before one ends it.
    """
    _lines: dict[int, list[tuple[int, Tick]]] = field(factory=dict)
    """By iteration, the lines of the window and those of the first iteration beyond it."""
    _last: tuple[int, Tick] | None = None
    _first: int = 0
    """The window's first iteration, once there is one."""
    _reached: int = -1
    """The largest iteration of which a line was kept."""

    def take(self, line: int, tick: Tick) -> None:
        """Add the content of a line of the log; lines outside the window are dropped.

        Args:
            line: The line's number, counted from 1.
            tick: The content of the line.

        Raises:
            DocumentError: A number is negative or not finite, the iteration has more lines than there can be ranks, or
                its number goes back, as in a log that holds several runs.
        """
        for value in (tick.stamp, tick.seconds, tick.rate):
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise self.log.error_at(
                    line, f"{value} is neither a time nor a rate of iteration {tick.iteration}"
                )
        restarts = self._last is not None and tick.iteration <= self._last[1].iteration
        if restarts and (max(self.ranks) == 1 or (self.complete and tick.iteration <= self._first)):
            raise self._mixed_runs_error(line, tick)
        self._last = (line, tick)
        if tick.iteration < self.warmup - 1 or (self.complete and tick.iteration > self._end):
            return
        self._first = min(tick.iteration, self._first) if self._lines else tick.iteration
        self._reached = max(tick.iteration, self._reached)
        written = self._lines.setdefault(tick.iteration, [])
        if len(written) == max(self.ranks):
            raise self.log.error_at(
                line,
                f"this is line {len(written) + 1} of iteration {tick.iteration}, and the case has "
                f"{max(self.ranks)} devices. The log holds the lines of several runs, or the topology was another",
            )
        written.append((line, tick))

    def _mixed_runs_error(self, line: int, tick: Tick) -> DocumentError:
        last_line, before = self._last or (line, tick)
        return self.log.error_at(
            line,
            f"iteration {tick.iteration} comes after iteration {before.iteration} of line {last_line}. The log holds "
            "the lines of several processes or runs; import those of one",
        )

    @property
    def _end(self) -> int:
        return self._first + self.steps

    @property
    def complete(self) -> bool:
        """True if the lines so far reach the window's last iteration or a later one; False before the first line."""
        return bool(self._lines) and self._reached >= self._end

    def estimate(self, global_batch: int) -> Estimate:
        """Return the throughput over the window, in samples of all devices per second.

        It is computed from time stamps if all lines of the iterations at both ends of the window have one. Otherwise it
        is computed from the durations of the iterations, or if those are missing, from their rates.

        Args:
            global_batch: Samples of all devices in an iteration.

        Raises:
            DocumentError: The log has no known lines, ends before the window does, leaves out iterations that are
                needed, has the lines of some ranks only, has no rate for an iteration, or the window took no time.
        """
        ranks = self._ranks()
        throughput, name = self._throughput(global_batch)
        explanation = ESTIMATOR[name]
        if ranks > 1:
            explanation += f"; the log holds the lines of {ranks} ranks: {OF_RANKS[name]}"
        return Estimate(
            throughput, name, f"{explanation}; {self.steps} iterations after {self.warmup} of warm-up"
        )

    def _throughput(self, global_batch: int) -> tuple[float, str]:
        first, last = (self._ticks(iteration) for iteration in (self._first, self._end))
        starts, ends = ([tick.stamp for tick in ticks if tick.stamp is not None] for ticks in (first, last))
        if len(starts) == len(first) and len(ends) == len(last):
            # An iteration is over when its slowest rank is.
            return self._divide(max(ends) - max(starts), global_batch), "elapsed-between-lines"
        inside = [iteration for iteration in sorted(self._lines) if self._first < iteration <= self._end]
        times = [
            [tick.seconds for tick in self._ticks(iteration) if tick.seconds is not None]
            for iteration in inside
        ]
        if all(times):
            self._check_gaps(inside)
            return self._divide(
                math.fsum(math.fsum(seconds) / len(seconds) for seconds in times), global_batch
            ), ("summed-step-times")
        rates = [
            [tick.rate for tick in self._ticks(iteration) if tick.rate is not None] for iteration in inside
        ]
        if not all(rates) or not math.fsum(map(median, rates)):
            raise DocumentError(
                f"{self.log.path}: between iterations {self._first} and {self._end} rates are missing."
            )
        return math.fsum(map(median, rates)) / len(rates), "mean-of-rates"

    def _ticks(self, iteration: int) -> list[Tick]:
        return [tick for _, tick in self._lines[iteration]]

    def _check_gaps(self, inside: Sequence[int]) -> None:
        reached = self._first
        for iteration in inside:
            line, tick = self._lines[iteration][0]
            if iteration - tick.covers != reached:
                raise self.log.error_at(
                    line, f"the time of iteration {reached + 1} is missing before iteration {iteration}"
                )
            reached = iteration

    def _ranks(self) -> int:
        """Return how many ranks logged every iteration of the window."""
        if self._last is None:
            raise self.log.error_missing("a line about an iteration that this importer knows")
        if not self._lines:
            raise self.log.error_missing(
                f"{self.warmup} iterations of warm-up: it comes to iteration {self._last[1].iteration}. "
                "Skip fewer with --set warmup=N"
            )
        if not self.complete:
            raise self.log.error_missing(
                f"iteration {self._end}, the end of the window: it comes to iteration {self._reached}. Measure fewer "
                "with --set steps=N"
            )
        if self._end not in self._lines:
            next_iteration = self._reached
            raise self.log.error_at(
                self._lines[next_iteration][0][0],
                f"the window of {self.steps} iterations begins at {self._first}, but there is no line for its "
                f"end: {next_iteration} is the next. Choose steps that the log has lines for, with --set steps=N",
            )
        window = {iteration: len(lines) for iteration, lines in self._lines.items() if iteration <= self._end}
        ranks = max(window.values())
        for iteration, written in window.items():
            if written != ranks or ranks not in self.ranks:
                one_of = ", ".join(map(str, sorted(self.ranks)))
                raise self.log.error_at(
                    self._lines[iteration][-1][0],
                    f"iteration {iteration} has {written} lines; those of the window must all have as many, and as "
                    f"many as the case can have ranks in one log ({one_of})",
                )
        return ranks

    def _divide(self, seconds: float, global_batch: int) -> float:
        if not seconds > 0:
            raise DocumentError(f"{self.log.path}: the window of {self.steps} iterations took {seconds} s.")
        return self.steps * global_batch / seconds
