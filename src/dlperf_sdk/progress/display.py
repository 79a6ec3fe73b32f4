"""The progress of a run on standard error: a live line on a terminal, plain lines elsewhere.

Both displays are observers, and both are context managers: what is drawn live is erased when the context is left.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from dlperf_sdk.documents.json_values import replace_control_characters
from dlperf_sdk.hookspecs import hookimpl
from dlperf_sdk.progress.state import TITLES, Advance, course_of
from dlperf_sdk.reports.numbers import duration, quantity

PRINT_INTERVAL = 10.0
"""Seconds between two plain lines about steps."""


def describe_activity(advance: Advance) -> str:
    """Return the activity of a run as text, such as `measuring, step 40 of 100, about 312.5 img/s`.

    The step and the throughput are left out where they are not known.

    Args:
        advance: The progress of the run.
    """
    parts = [TITLES.get(advance.phase, advance.phase)]
    if advance.steps:
        parts.append(f"step {min(advance.step, advance.steps):,} of {advance.steps:,}")
    if advance.throughput is not None:
        parts.append(f"about {quantity(advance.throughput, advance.course.unit)}")
    return ", ".join(parts)


class Lines:
    """A display of a run's progress as plain lines: no control characters, no line is overwritten.

    Args:
        console: The console to print to.
        verbose: True to show the process of each worker.
        redact: True to show the run's name instead of its directory.
        clock: Function without arguments that returns the time in seconds of a monotonic clock.
    """

    def __init__(
        self,
        console: Console,
        *,
        verbose: bool = False,
        redact: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.console, self.verbose, self.redact, self.clock = console, verbose, redact, clock
        self.advance: Advance | None = None
        self.stage = ""
        self._printed_at = 0.0

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def print(self, text: str, style: str = "") -> None:
        """Print a permanent line.

        Args:
            text: The line; control characters in it are replaced.
            style: A style of Rich; empty for none.
        """
        self.console.print(
            Text(replace_control_characters(text), style), soft_wrap=not self.console.is_terminal
        )

    @hookimpl
    def dlperf_run_started(self, run_id: str, plan: Any, directory: str | None) -> None:
        """Print the case and its directory, and begin to track the run.

        Args:
            run_id: Identifier of the run.
            plan: The planned case.
            directory: Path of the run's directory; None without a store.
        """
        spec = plan.spec
        self.advance = Advance(course_of(plan))
        self.print(
            f"{spec.framework} {spec.model} {spec.topology} on {plan.device}, batch {spec.batch_size} "
            f"per device ({spec.global_batch_size} in all), {spec.precision}, {plan.protocol.name}",
            "bold",
        )
        if directory is not None:
            self.print(f"results in {run_id if self.redact else directory}")

    @hookimpl
    def dlperf_stage(self, stage: str, detail: str) -> None:
        """Show a line of progress of a stage outside the repeats, and record the time for estimates of the time left.

        Args:
            stage: The stage, such as `environment` or `parity`.
            detail: The line, for people.
        """
        self.stage = f"{stage}: {detail}"
        if self.advance is not None:
            self.advance.record_stage(stage, self.clock())
        self.show_stage(stage, detail)

    def show_stage(self, stage: str, detail: str) -> None:
        """Print one line of progress of a stage outside the repeats.

        Args:
            stage: The stage; a `note` is highlighted.
            detail: The line.
        """
        self.print(f"{stage}: {detail}", "yellow" if stage == "note" else "dim")

    @hookimpl
    def dlperf_repeat_started(self, attempt: int) -> None:
        """Record the start of a repeat; nothing is printed.

        Args:
            attempt: Number of the repeat, counted from 1.
        """
        self.stage = ""
        if self.advance is not None:
            self.advance.start_repeat(attempt, self.clock())

    @hookimpl
    def dlperf_worker_started(self, attempt: int, node: int, name: str, pid: int) -> None:
        """Print the node, name and process id of a worker, if the display is verbose.

        Args:
            attempt: Number of the repeat, counted from 1.
            node: Index of the node, counted from 0.
            name: Name of the process, such as `rank-0`.
            pid: Process id on the node.
        """
        if self.verbose:
            self.print(f"repeat {attempt}: node {node} started {name} as process {pid}", "dim")

    @hookimpl
    def dlperf_step_progress(self, node: int, phase: str, step: int) -> None:
        """Record the phase and the step of node 0's first worker, and show them.

        Reports of other nodes are ignored.

        Args:
            node: Index of the node, counted from 0.
            phase: Current phase; `measure` is the window.
            step: Number of finished steps in the phase.
        """
        # Synchronous workers advance together: the first node's stands for all.
        if self.advance is None or node != 0:
            return
        before = self.advance.phase
        self.advance.record_step(phase, step, self.clock())
        self.show_step(before)

    def show_step(self, before: str) -> None:
        """Print the current phase and its progress.

        A phase is printed when it begins. Warm-up and measurement are printed again every ten seconds. Nothing is
        printed for the phases `ready`, `verify`, `teardown` and `done`.

        Args:
            before: The phase in the report before the current one.

        Raises:
            AssertionError: No run has started.
        """
        advance = self.advance
        assert advance is not None
        now = self.clock()
        if advance.phase == before and now - self._printed_at < PRINT_INTERVAL:
            return
        if advance.phase in ("ready", "verify", "teardown", "done") or (
            advance.phase == before and advance.steps is None
        ):
            return
        self._printed_at = now
        status = ", ".join(part for part in (self.describe_activity(), self.time_left()) if part)
        self.print(f"repeat {advance.attempt} of {advance.repeats}: {status}")

    def describe_activity(self) -> str:
        """Return the activity of the run as text, such as `measuring, step 40 of 100, about 312.5 img/s`.

        The step and the throughput are left out where they are not known.

        Raises:
            AssertionError: No run has started.
        """
        assert self.advance is not None
        return describe_activity(self.advance)

    def time_left(self) -> str:
        """Return the estimated time left as text, such as `3 min left`; empty if it is not known."""
        seconds = None if self.advance is None else self.advance.seconds_left(self.clock())
        return "" if seconds is None else f"{duration(seconds)} left"

    @hookimpl
    def dlperf_repeat_ended(self, attempt: int, status: str, throughput: float | None) -> None:
        """Print the throughput of a repeat, or the kind of its failure, and its duration.

        Args:
            attempt: Number of the repeat, counted from 1.
            status: `ok` or the kind of the failure.
            throughput: Samples per second over all devices; None if the repeat failed.
        """
        advance = self.advance
        if advance is None:
            return
        advance.end_repeat(throughput, self.clock())
        elapsed = duration(advance.durations[-1])
        if throughput is None:
            self.print(f"repeat {attempt} of {advance.repeats}: {status} after {elapsed}", "bold red")
        else:
            rate = quantity(throughput, advance.course.unit)
            self.print(f"repeat {attempt} of {advance.repeats}: {rate} in {elapsed}", "green")


class LiveDisplay(Lines):
    """A display on a terminal: permanent lines about finished parts, and below them a live part.

    Args:
        console: The console to print to.
        verbose: True to print the lines of all stages, and the process of each worker.
        redact: True to show the run's name instead of its directory.
        clock: Function without arguments that returns the time in seconds of a monotonic clock.
    """

    def __init__(
        self,
        console: Console,
        *,
        verbose: bool = False,
        redact: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(console, verbose=verbose, redact=redact, clock=clock)
        self._spinner = Spinner("dots")
        self._live = Live(
            console=console,
            get_renderable=self.render,
            refresh_per_second=8,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> LiveDisplay:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show_stage(self, stage: str, detail: str) -> None:
        """Print a stage outside the repeats as a permanent line if it is a note or the display is verbose.

        Otherwise nothing is printed: the live part shows the stage.

        Args:
            stage: The stage, such as `environment` or `note`.
            detail: The line, for people.
        """
        if stage == "note" or self.verbose:
            super().show_stage(stage, detail)

    def show_step(self, before: str) -> None:
        """Do nothing: the live part shows the step.

        `before`, the phase in the report before the current one, is not used.
        """

    def render(self) -> RenderableType:
        """Return the live part for Rich: the current repeat or, before the first and between repeats, the stage.

        A repeat is shown with its phase, and with a progress bar and the time left if the phase has a known number of
        steps.
        """
        advance = self.advance
        if advance is None or not advance.attempt or len(advance.durations) >= advance.attempt:
            return self._line(Text(replace_control_characters(self.stage) or "preparing", "dim"))
        now = self._line(
            Text(f"repeat {advance.attempt} of {advance.repeats}: ", "bold")
            + Text(self.describe_activity(), "")
        )
        if not advance.steps:
            return now
        row = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=advance.steps, completed=min(advance.step, advance.steps), width=50)
        row.add_row(bar, Text(self.time_left(), "dim"))
        return Group(now, Padding(row, (0, 0, 0, 2)))

    def _line(self, text: Text) -> RenderableType:
        grid = Table.grid(padding=(0, 1))
        grid.add_column()
        grid.add_column(no_wrap=True, overflow="ellipsis")
        grid.add_row(self._spinner, text)
        return grid


def display(console: Console, *, live: bool, verbose: bool = False, redact: bool = False) -> Lines:
    """Return the display of a run's progress on a console.

    The display is an observer and a context manager. A `LiveDisplay` is drawn from entering the context until leaving
    it, and then erased. `Lines` need no context.

    Args:
        console: The console.
        live: True for a `LiveDisplay`, on a terminal that can overwrite lines; False for plain `Lines`.
        verbose: True to show every line of an installation and the process of each worker.
        redact: True to show the run's name instead of its directory, whose path may name a user or a host.
    """
    return (LiveDisplay if live else Lines)(console, verbose=verbose, redact=redact)
