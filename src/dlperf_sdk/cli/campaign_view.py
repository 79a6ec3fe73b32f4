"""How a campaign goes, on standard error: drawn live on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dlperf_sdk.campaigns.campaign import Asked
from dlperf_sdk.campaigns.status import named
from dlperf_sdk.cli.advance import TITLES
from dlperf_sdk.hookspecs import hookimpl
from dlperf_sdk.report.blocks import visible
from dlperf_sdk.report.numbers import counted, duration, quantity


class CampaignLines:
    """What happens, a line each. It hears the journal (`hear`), and as an observer the steps of the case at hand."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.cases: dict[str, str] = {}
        self.done: dict[str, str] = {}
        self.current = ""
        self.throughput = ""
        self.doing = ""
        self.left: float | None = None
        self.since = time.monotonic()

    def expect(self, cases: tuple[Asked, ...]) -> None:
        """The cases that there are."""
        self.cases = {each.id: named(each.spec) for each in cases}

    def __enter__(self) -> CampaignLines:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def print(self, text: str, style: str = "") -> None:
        """A line that stays."""
        self.console.print(Text(visible(text), style), soft_wrap=not self.console.is_terminal)

    def hear(self, entry: Mapping[str, Any]) -> None:
        """One entry of the journal."""
        case = self.cases.get(entry.get("case", ""), "")
        self.left = entry.get("left", self.left)
        match entry["event"]:
            case "session":
                for change in entry["changes"]:
                    self.print(f"Changed since the last session: {change}", "yellow")
            case "problem":
                self.print(f"{case}: {entry['text']}", "yellow")
            case "retried":
                self.done.pop(entry["case"], None)
                self.print(f"{case}: {entry['notes'][0]}", "yellow")
            case "nothing-to-retry":
                self.print(
                    f"No case has ended in {' or '.join(entry['kinds'])}: nothing is tried again.", "yellow"
                )
            case "waiting":
                self.doing = "waiting for the machine to become quiet"
            case "attempt-started":
                self.current, self.doing = f"{case}, repeat {entry['attempt']}", "starting"
                self.since = time.monotonic()
            case "attempt-ended":
                self.ended(case, entry)
            case "not-begun":
                self.print(f"{case}: {entry['status']}. {entry['message']}", "red")
            case "concluded":
                self.done[entry["case"]] = entry["status"] if entry.get("ok", True) else "untrue"
                style = "green" if entry["status"] == "ok" else "bold red"
                self.print(
                    f"[{len(self.done)}/{len(self.cases)}] {case}: {entry['status']}{self.aside()}", style
                )
            case "interrupted":
                self.print("Interrupted; what is finished is kept.", "yellow")

    def ended(self, case: str, entry: Mapping[str, Any]) -> None:
        """An attempt is over."""
        seconds = duration(entry["seconds"]) if entry.get("seconds") else ""
        if entry["status"] == "ok":
            self.throughput = quantity(entry["throughput"], "samples/s")
            self.print(f"{case}, repeat {entry['attempt']}: {self.throughput} in {seconds}{self.aside()}")
        else:
            self.print(f"{case}, repeat {entry['attempt']}: {entry['status']} after {seconds}", "red")
        for note in entry.get("notes", ()):
            self.print(f"note: {note}", "yellow")

    def aside(self) -> str:
        """The time left, as far as it is known."""
        return f"; about {duration(self.left)} left" if self.left else ""

    @hookimpl
    def dlperf_stage(self, stage: str, detail: str) -> None:
        self.doing = f"{stage}: {detail}"
        if stage == "batch-size":
            self.print(self.doing, "dim")

    @hookimpl
    def dlperf_step_progress(self, node: int, phase: str, step: int) -> None:
        if node == 0:
            self.doing = f"{TITLES.get(phase, phase)}, step {step:,}"


class CampaignDrawn(CampaignLines):
    """The same on a terminal: lines about what is over, and below them the whole and what happens now."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._live = Live(
            console=console,
            get_renderable=self.drawn,
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

    def drawn(self) -> RenderableType:
        """The whole, the case at hand, the throughput so far, the failures, the time left."""
        failed = sum(status != "ok" for status in self.done.values())
        row = Table.grid(padding=(0, 2))
        bar = ProgressBar(total=max(1, len(self.cases)), completed=len(self.done), width=40)
        said = [f"{len(self.done)} of {counted(len(self.cases), 'case')}"]
        said += [f"{failed} failed"] if failed else []
        said += [f"about {duration(self.left)} left"] if self.left else []
        row.add_row(bar, Text(", ".join(said), "red" if failed else ""))
        now = Text(visible(self.current), "bold")
        now.append(f"  {visible(self.doing)}, {duration(time.monotonic() - self.since)}", "dim")
        if self.throughput:
            now.append(f"  last: {self.throughput}", "dim")
        return Group(Padding(row, (0, 0)), now)


def view(console: Console, *, live: bool) -> CampaignLines:
    """The view that suits."""
    return (CampaignDrawn if live else CampaignLines)(console)
