"""The progress of a run started from Python: drawn in a terminal or notebook, or passed to a function."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from attrs import frozen

from dlperf_sdk.errors import UsageError
from dlperf_sdk.hookspecs import hookimpl
from dlperf_sdk.progress.state import Advance, course_of


@frozen(kw_only=True)
class Progress:
    """The progress of a run at one moment. Values that are not known yet are None."""

    run_id: str
    """Name of the run."""
    stage: str
    """`environment`, `data`, `parity`, `bundle`, `launch`, …; in a repeat its phase: `start`, `compile`, `warmup`,
    `ready`, `measure`, `verify`, `teardown`, `done`."""
    detail: str = ""
    """A line about the stage, for display; empty in a repeat."""
    repeat: int = 0
    """Number of the current repeat, counted from 1; 0 before the first."""
    repeats: int
    """The smallest number of repeats that the protocol takes."""
    step: int = 0
    """Steps of the current phase that are done."""
    steps: int | None = None
    """Number of steps of the phases `warmup` and `measure`; None in others."""
    throughput: float | None = None
    """Samples per second so far in this phase: an estimate, not a measurement."""
    seconds_left: float | None = None
    """Estimated seconds until the smallest number of repeats is done."""


ProgressOption = Literal["auto"] | bool | Callable[[Progress], None]
"""`auto`: a live display on a terminal or in a notebook, and nothing elsewhere. False: nothing. True: a live
display, or, elsewhere, lines on standard error. A function: it is called with each `Progress`."""


class Caller:
    """An observer that calls a function with the progress of a run.

    Args:
        function: The function, which is called with each `Progress`.
        clock: Function without arguments that returns the time in seconds of a monotonic clock.
    """

    def __init__(self, function: Callable[[Progress], None], clock: Callable[[], float] = time.monotonic):
        self.function, self.clock = function, clock
        self.run_id, self.advance = "", None

    advance: Advance | None

    @hookimpl
    def dlperf_run_started(self, run_id: str, plan: Any) -> None:
        """Begin to track the run. The observer's function is not called yet.

        Args:
            run_id: Identifier of the run.
            plan: The planned case.
        """
        self.run_id, self.advance = run_id, Advance(course_of(plan))

    @hookimpl
    def dlperf_stage(self, stage: str, detail: str) -> None:
        """Call the observer's function with a `Progress` for a line of progress of a stage outside the repeats.

        Args:
            stage: The stage, such as `environment` or `parity`.
            detail: The line, for people.
        """
        if self.advance is not None:
            self.advance.record_stage(stage, self.clock())
            self._call(self.advance, stage, detail)

    @hookimpl
    def dlperf_repeat_started(self, attempt: int) -> None:
        """Call the observer's function with a `Progress` when a repeat starts; its `stage` is `start`.

        Args:
            attempt: Number of the repeat, counted from 1.
        """
        if self.advance is not None:
            self.advance.start_repeat(attempt, self.clock())
            self._call(self.advance, self.advance.phase)

    @hookimpl
    def dlperf_step_progress(self, node: int, phase: str, step: int) -> None:
        """Call the observer's function with a `Progress` for a report of node 0's first worker.

        Reports of other nodes are ignored.

        Args:
            node: Index of the node, counted from 0.
            phase: Current phase; `measure` is the window.
            step: Number of finished steps in the phase.
        """
        if self.advance is not None and node == 0:  # synchronous workers advance together
            self.advance.record_step(phase, step, self.clock())
            self._call(self.advance, phase)

    @hookimpl
    def dlperf_repeat_ended(self, throughput: float | None) -> None:
        """Call the observer's function with a `Progress` when a repeat has ended; its `stage` is `done`.

        Args:
            throughput: Samples per second over all devices; None if the repeat failed.
        """
        if self.advance is not None:
            self.advance.end_repeat(throughput, self.clock())
            self._call(self.advance, "done")

    def _call(self, advance: Advance, stage: str, detail: str = "") -> None:
        self.function(
            Progress(
                run_id=self.run_id,
                stage=stage,
                detail=detail,
                repeat=advance.attempt,
                repeats=advance.course.repeats,
                step=advance.step,
                steps=advance.steps,
                throughput=advance.throughput,
                seconds_left=advance.seconds_left(self.clock()),
            )
        )


@contextmanager
def watching(progress: ProgressOption) -> Iterator[list[Any]]:
    """Return a context manager whose value is a list of the observers that show the progress of a run.

    The list is empty if nothing is to be shown. On exit, a live display is erased.

    Args:
        progress: `"auto"`: a live display on a terminal or in a notebook, and nothing elsewhere. False: nothing. True:
            a live display on a terminal or in a notebook, and lines on standard error elsewhere. A function: it is
            called with each `Progress`.

    Raises:
        UsageError: `progress` has none of these values.
    """
    if callable(progress):
        yield [Caller(progress)]
        return
    if progress not in ("auto", True, False):
        raise UsageError(
            f'progress is {progress!r}; it must be "auto", True, False, or a function that takes a Progress.'
        )
    live = sys.stderr is not None and sys.stderr.isatty()
    if progress is False or (progress == "auto" and not live and not _in_notebook()):
        yield []
        return
    from rich.console import Console

    from dlperf_sdk.progress.display import Lines, LiveDisplay
    from dlperf_sdk.progress.notebook import NotebookDisplay

    console = Console(stderr=True)
    if _in_notebook():
        yield [NotebookDisplay()]
    elif live and not console.is_dumb_terminal:
        with LiveDisplay(console) as drawn:
            yield [drawn]
    else:
        yield [Lines(console)]


def _in_notebook() -> bool:
    """Return True in a Jupyter kernel, whose output can be HTML."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"
