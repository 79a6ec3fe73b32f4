"""One session of a campaign: what its controller knows, and what it writes into the journal."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from attrs import define, field

from dlperf_sdk.campaigns import estimate
from dlperf_sdk.campaigns.campaign import Settings
from dlperf_sdk.campaigns.campaign_directory import CampaignDirectory
from dlperf_sdk.campaigns.case_progress import CaseProgress
from dlperf_sdk.execution.case import Case
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.records import Failure

Watch = Callable[[dict[str, Any]], None]
"""Gets every entry of the journal when it is on the disk; from the session's own on with `left`, the estimated seconds
to the end of the campaign."""


@define
class Session:
    """The state of a session: how far each case is, and the cases that are under way."""

    directory: CampaignDirectory
    registry: Registry
    observers: Observers
    watch: Watch
    cases: dict[str, CaseProgress]
    host_changes: list[str]
    """Changes on this machine since the session before."""
    deadline: float
    """End of the session's time limit, on the monotonic clock."""
    boot_id: str | None
    """Of this machine."""
    open_cases: dict[str, Case] = field(factory=dict)
    """The cases that have begun in this session and are not concluded."""

    @property
    def settings(self) -> Settings:
        """The campaign's settings."""
        return self.directory.settings

    def write(self, event: str, **details: Any) -> None:
        """Append an entry to the journal, then apply it to its case and show it to the watcher."""
        entry = self.directory.journal.append(event, **details)
        progress = self.cases.get(entry.get("case", ""))
        if progress is not None:
            progress.apply(entry)
        self.watch({**entry, "left": estimate.remaining_seconds(self.cases.values(), self.settings)})

    def pending(self) -> dict[str, int]:
        """Return the cases that are not concluded, with their finished repeats."""
        return {id: progress.finished for id, progress in self.cases.items() if progress.status is None}

    def seconds_left(self, limit: float = math.inf) -> float:
        """Return the seconds until the session's time is up, and at most `limit`."""
        return min(limit, max(0.0, self.deadline - time.monotonic()))

    def is_over(self) -> bool:
        """Return True if the session's time is up."""
        return time.monotonic() >= self.deadline

    def is_ended_by_time(self, failure: Failure | None) -> bool:
        """Return True if the session's time limit caused the failure."""
        return failure is not None and failure.kind == "timeout" and self.is_over()

    def has_exhausted_retries(self, progress: CaseProgress) -> bool:
        """Return True if a case has failed more often than it may be tried again."""
        retry = self.settings.retry
        return any(count > retry.get(kind, 0) for kind, count in progress.failures.items())
