"""Display of a campaign's progress on standard error: live on a terminal, else as plain lines."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dlperf_sdk.campaigns.campaign_directory import CampaignDirectory
from dlperf_sdk.campaigns.case_progress import read_progress
from dlperf_sdk.documents.json_values import replace_control_characters
from dlperf_sdk.hookspecs import hookimpl
from dlperf_sdk.progress.display import describe_activity
from dlperf_sdk.progress.state import Advance, Course, course_of
from dlperf_sdk.reports.numbers import duration, format_count, quantity

NARROW = 80
"""Width in columns below which the progress bar has its own line."""


class CampaignLines:
    """Progress of a campaign as plain lines.

    `apply` takes the entries of the journal. The hooks take the progress of the current case, so an instance is also an
    observer. It is a context manager that does nothing on entry and on exit.

    Args:
        console: Console to print to.
        directory: The campaign.

    Raises:
        StoreError: The campaign's journal cannot be read.
    """

    def __init__(self, console: Console, directory: CampaignDirectory) -> None:
        self.console, self.directory = console, directory
        self.cases: dict[str, str] = {}
        self.repeats: dict[str, int] = {}
        """Number of repeats of each case, as far as its protocol tells."""
        self.finished: Counter[str] = Counter()
        self.done: dict[str, str] = {}
        self.courses: dict[str, Course] = {}
        self.current = ""
        self.throughput = ""
        self.activity = "preparing"
        self.advance: Advance | None = None
        self.left: float | None = None
        self.started_at = time.monotonic()
        self.read_journal()

    def read_journal(self) -> None:
        """Read the journal, and update the labels, numbers of repeats and conclusions of all cases in the display.

        Raises:
            StoreError: The journal cannot be read.
        """
        for id, progress in read_progress(self.directory.cases, self.directory.journal.read()).items():
            self.cases[id] = progress.case.spec.label
            self.repeats[id] = progress.case.spec.resolved_protocol().repeats
            self.finished[id] = progress.finished
            if progress.status is not None:
                self.done[id] = progress.status if progress.ok else "invalid"

    def __enter__(self) -> CampaignLines:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def print(self, text: str, style: str = "") -> None:
        """Print a permanent line, with control characters replaced.

        Args:
            text: The line.
            style: A style of Rich; empty for none.
        """
        self.console.print(
            Text(replace_control_characters(text), style), soft_wrap=not self.console.is_terminal
        )

    def apply(self, entry: Mapping[str, Any]) -> None:
        """Update the display by an entry of the campaign's journal, and print the lines that belong to the entry.

        Args:
            entry: The entry as JSON values. The key `left`, if there is one, has the estimated seconds to the end of
                the campaign.

        Raises:
            StoreError: The entry begins a session, and the journal cannot be read.
        """
        case = self.cases.get(entry.get("case", ""), "")
        self.left = entry.get("left", self.left)
        for line in _warnings(case, entry):
            self.print(line, "yellow")
        match entry["event"]:
            case "ending-left":
                message = f"Ending what an earlier controller left in the queue: {', '.join(entry['jobs'])}."
                self.print(message, "yellow")
            case "session":
                self.read_journal()
            case "retried":
                self.done.pop(entry["case"], None)
            case "waiting":
                self.activity = "waiting for the machine to become quiet"
            case "attempt-started":
                self.enter(f"{case}, repeat {entry['attempt']}", "starting")
                course = self.courses.get(entry["case"])
                if course is not None:
                    self.advance = Advance(course)
                    self.advance.start_repeat(entry["attempt"], time.monotonic())
            case "attempt-ended":
                self.show_end(case, entry)
            case "not-begun":
                self.print(f"{case}: {entry['status']}. {entry['message']}", "red")
            case "concluded":
                self.done[entry["case"]] = entry["status"] if entry.get("ok", True) else "invalid"
                style = "green" if entry["status"] == "ok" else "bold red"
                self.print(
                    f"[{len(self.done)}/{len(self.cases)}] {case}: {entry['status']}{self.time_left_suffix()}",
                    style,
                )

    def show_end(self, case: str, entry: Mapping[str, Any]) -> None:
        """Print the end of an attempt: its throughput or the kind of its failure, its duration, and its notes.

        Args:
            case: Label of the case.
            entry: The journal's entry `attempt-ended`, as JSON values.
        """
        self.advance = None
        seconds = duration(entry["seconds"]) if entry.get("seconds") else ""
        if entry["status"] == "ok":
            course = self.courses.get(entry["case"])
            self.finished[entry["case"]] += 1
            self.throughput = quantity(entry["throughput"], "samples/s" if course is None else course.unit)
            self.print(
                f"{case}, repeat {entry['attempt']}: {self.throughput} in {seconds}{self.time_left_suffix()}"
            )
        else:
            self.print(f"{case}, repeat {entry['attempt']}: {entry['status']} after {seconds}", "red")
        for note in entry.get("notes", ()):
            self.print(f"note: {note}", "yellow")

    def time_left_suffix(self) -> str:
        """Return `; about DURATION left`; an empty text if the time left is not known."""
        return f"; about {duration(self.left)} left" if self.left else ""

    def enter(self, current: str, activity: str) -> None:
        """Set the part of the campaign that the display shows as current, and the activity in it.

        Args:
            current: Phrase that names the part, such as a case and its repeat. If it differs from the phrase before,
                the display starts to count the part's time.
            activity: The activity, as a phrase.
        """
        if current != self.current:
            self.current, self.started_at = current, time.monotonic()
        self.activity = activity

    @hookimpl
    def dlperf_run_started(self, run_id: str, plan: Any) -> None:
        """Record the steps and repeats of a run, by which its progress is estimated.

        Args:
            run_id: Identifier of the run.
            plan: The planned case.
        """
        self.courses[run_id] = course_of(plan)

    @hookimpl
    def dlperf_stage(self, run_id: str, stage: str, detail: str) -> None:
        """Show a stage outside the repeats as the activity. The stages `batch-size` and `queue` also print a line.

        Args:
            run_id: Identifier of the run.
            stage: The stage, such as `environment` or `parity`.
            detail: The line of progress, for people.
        """
        activity = f"{stage}: {detail}"
        if self.advance is None:
            self.enter(self.cases.get(run_id, self.current), activity)
        if stage in ("batch-size", "queue"):
            self.print(activity, "dim")

    @hookimpl
    def dlperf_step_progress(self, node: int, phase: str, step: int) -> None:
        # Synchronous workers advance together: the first node represents all.
        """Show the phase and the step of node 0's first trainer. Reports of other nodes are ignored.

        Args:
            node: Index of the node, counted from 0.
            phase: Current phase; `measure` is the window.
            step: Number of finished steps in the phase.
        """
        if node == 0 and self.advance is not None:
            self.advance.record_step(phase, step, time.monotonic())
            self.activity = describe_activity(self.advance)


class CampaignDrawn(CampaignLines):
    """Progress of a campaign on a terminal: permanent lines, and below them a live display.

    As a context manager, it shows the live display on entry, and erases it on exit.

    Args:
        console: Console to print to.
        directory: The campaign.

    Raises:
        StoreError: The campaign's journal cannot be read.
    """

    def __init__(self, console: Console, directory: CampaignDirectory) -> None:
        super().__init__(console, directory)
        self._live = Live(
            console=console,
            get_renderable=self.render,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> CampaignDrawn:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def render(self) -> RenderableType:
        """Return the live display for Rich: a bar and counts for the whole campaign, the current case and its activity.

        No line wraps.
        """
        total = max(1, sum(self.repeats.values()))
        # A concluded case has no repeats left, whatever number it has finished.
        completed = sum(
            count if id in self.done else min(self.finished[id], count) for id, count in self.repeats.items()
        )
        failed = sum(status != "ok" for status in self.done.values())
        parts = [
            f"{len(self.done)} of {format_count(len(self.cases), 'case')}",
            f"{100 * completed // total} %",
        ]
        parts += [f"{failed} failed"] if failed else []
        parts += [f"about {duration(self.left)} left"] if self.left else []
        overview = Text(", ".join(parts), "red" if failed else "")
        lines = [self.current, f"{duration(time.monotonic() - self.started_at)}: {self.activity}"]
        lines[1] += f"; last repeat {self.throughput}" if self.throughput else ""
        now = [
            Text(replace_control_characters(line), style)
            for line, style in zip(lines, ("bold", "dim"), strict=True)
            if line
        ]
        bar = ProgressBar(total=total, completed=completed, width=min(40, self.console.width))
        row, pace = Table.grid(padding=(0, 2)), self.console.width >= NARROW
        row.add_row(bar, *_disable_wrapping([overview] if pace else []))
        return Group(row, *_disable_wrapping(now if pace else [overview, *now]))


def _disable_wrapping(lines: list[Text]) -> list[Text]:
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return lines


def _warnings(case: str, entry: Mapping[str, Any]) -> list[str]:
    """Return the warnings of a journal entry: changes, problems, retries and interruptions."""
    match entry["event"]:
        case "session":
            return [f"Changed since the last session: {change}" for change in entry["changes"]]
        case "problem":
            return [f"{case}: {entry['text']}" if case else str(entry["text"])]
        case "retried":
            return [f"{case}: {entry['notes'][0]}"]
        case "nothing-to-retry":
            return [f"No case has ended in {' or '.join(entry['kinds'])}: no case is retried."]
        case "interrupted":
            return ["Interrupted; what is finished is kept."]
    return []


def view(console: Console, directory: CampaignDirectory, *, live: bool) -> CampaignLines:
    """Return the display for a campaign.

    Args:
        console: Console for standard error.
        directory: The campaign.
        live: True for a live display; False for plain lines.

    Raises:
        StoreError: The campaign's journal cannot be read.
    """
    return (CampaignDrawn if live else CampaignLines)(console, directory)
