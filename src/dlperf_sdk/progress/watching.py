"""The progress of a run started from Python: drawn where a person sees it, or handed to a function."""

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
    """How far a run is. What is not known yet is None."""

    run_id: str
    stage: str
    """`environment`, `data`, `parity`, `bundle`, `launch`, …, or in a repeat its phase: `start`, `compile`, `warmup`,
    `ready`, `measure`, `verify`, `done`."""
    detail: str = ""
    """A line about the stage, for people."""
    repeat: int = 0
    """Counted from 1; 0 before the first."""
    repeats: int
    """The fewest that the protocol takes."""
    step: int = 0
    """Steps of the phase that are done."""
    steps: int | None = None
    """Steps of the phase, in `warmup` and `measure`."""
    throughput: float | None = None
    """Samples per second so far in this phase, seen from outside: no measurement."""
    seconds_left: float | None = None
    """Estimate for the rest of the run, all repeats included."""


ProgressOption = Literal["auto"] | bool | Callable[[Progress], None]
"""`auto`: a live display on a terminal or in a notebook, and nothing elsewhere; False: nothing; True: a live display
or, elsewhere, lines on standard error; a function: it is called with each `Progress`."""


class Caller:
    """Calls a function with the progress of a run."""

    def __init__(self, function: Callable[[Progress], None], clock: Callable[[], float] = time.monotonic):
        self.function, self.clock = function, clock
        self.run_id, self.advance = "", None

    advance: Advance | None

    @hookimpl
    def dlperf_run_started(self, run_id: str, plan: Any) -> None:
        """Record the run and its plan."""
        self.run_id, self.advance = run_id, Advance(course_of(plan))

    @hookimpl
    def dlperf_stage(self, stage: str, detail: str) -> None:
        """Report a stage outside the repeats to the callback."""
        if self.advance is not None:
            self.advance.record_stage(stage, self.clock())
            self._call(self.advance, stage, detail)

    @hookimpl
    def dlperf_repeat_started(self, attempt: int) -> None:
        """Report the start of a repeat to the callback."""
        if self.advance is not None:
            self.advance.start_repeat(attempt, self.clock())
            self._call(self.advance, self.advance.phase)

    @hookimpl
    def dlperf_step_progress(self, node: int, phase: str, step: int) -> None:
        """Report the phase and the step of node 0's first worker to the callback."""
        if self.advance is not None and node == 0:  # synchronous workers advance together
            self.advance.record_step(phase, step, self.clock())
            self._call(self.advance, phase)

    @hookimpl
    def dlperf_repeat_ended(self, throughput: float | None) -> None:
        """Report the end of a repeat to the callback."""
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
    """Yield the observers that show the progress of a run as `progress` of `run` says.

    Raises:
        UsageError: it has none of the possible values.
    """
    if callable(progress):
        yield [Caller(progress)]
        return
    if progress not in ("auto", True, False):
        raise UsageError(
            f'progress is {progress!r}; it must be "auto", True, False, or a function that takes a Progress.'
        )
    live = sys.stderr is not None and sys.stderr.isatty()
    if progress is False or (progress == "auto" and not live and not in_notebook()):
        yield []
        return
    from rich.console import Console

    from dlperf_sdk.progress.display import Lines, LiveDisplay
    from dlperf_sdk.progress.notebook import NotebookDisplay

    console = Console(stderr=True)
    if in_notebook():
        yield [NotebookDisplay()]
    elif live and not console.is_dumb_terminal:
        with LiveDisplay(console) as drawn:
            yield [drawn]
    else:
        yield [Lines(console)]


def in_notebook() -> bool:
    """Return True in a kernel of Jupyter, whose output is HTML."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"
