"""The progress of a run in a notebook: one cell of HTML, which is replaced as the run continues."""

from __future__ import annotations

import time
from collections.abc import Callable
from html import escape
from typing import Any

from rich.console import Console

from dlperf_sdk.documents.json_values import replace_control_characters
from dlperf_sdk.progress.display import Lines

DRAW_INTERVAL = 0.25
"""Seconds between two updates of the cell."""


class NotebookDisplay(Lines):
    """A display in the output of the notebook's cell that started the run.

    Args:
        clock: Function without arguments that returns the time in seconds of a monotonic clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(Console(quiet=True), clock=clock)
        self._lines: list[str] = []
        self._drawn_at = -DRAW_INTERVAL
        self._cell: Any = None

    def print(self, text: str, style: str = "") -> None:
        """Add the permanent line `text` to the output of the notebook's cell, and redraw it; `style` is not used."""
        self._lines.append(text)
        self._draw()

    def show_stage(self, stage: str, detail: str) -> None:
        """Show a line of progress outside the repeats: a note permanently, any other until the next one replaces it.

        Args:
            stage: The stage, such as `environment` or `note`.
            detail: The line, for people.
        """
        if stage == "note":
            super().show_stage(stage, detail)
        else:
            self._draw()

    def show_step(self, before: str) -> None:
        """Draw the output of the notebook's cell, if `DRAW_INTERVAL` (0.25 s) has passed since the last time.

        `before`, the phase in the report before the current one, is not used.
        """
        if self.clock() - self._drawn_at >= DRAW_INTERVAL:
            self._draw()

    def html(self) -> str:
        """Return the output of the notebook's cell as HTML: the permanent lines, and the current repeat or stage."""
        advance = self.advance
        rows = [escape(replace_control_characters(line)) for line in self._lines]
        if advance is not None and advance.attempt > len(advance.durations):
            parts = (
                f"repeat {advance.attempt} of {advance.repeats}: {self.describe_activity()}",
                self.time_left(),
            )
            rows.append(escape(", ".join(part for part in parts if part)))
            if advance.steps:
                rows.append(
                    f'<progress max="{advance.steps}" value="{min(advance.step, advance.steps)}"></progress>'
                )
        elif advance is None or len(advance.durations) < advance.course.repeats:
            rows.append(escape(replace_control_characters(self.stage) or "preparing"))
        return f"<div>{'<br>'.join(rows)}</div>"

    def _draw(self) -> None:
        from IPython.display import HTML, display

        self._drawn_at = self.clock()
        if self._cell is None:
            self._cell = display(HTML(self.html()), display_id=True)
        else:
            self._cell.update(HTML(self.html()))
