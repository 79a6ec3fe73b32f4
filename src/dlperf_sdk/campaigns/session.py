"""The state of one session of a campaign, and its entries in the journal."""

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
"""Function that receives every entry of the journal once it is on the disk. Entries that a `Session` writes also
have `left`, the estimated seconds to the end of the campaign."""


@define
class Session:
    """State of a session, which is one call of `run_campaign`: each case's progress, and the cases under way."""

    directory: CampaignDirectory
    """The campaign."""
    registry: Registry
    """The plugins."""
    observers: Observers
    """Observers of every case."""
    watch: Watch
    """Function that receives every entry that the session writes."""
    cases: dict[str, CaseProgress]
    """Id of each case → its progress."""
    host_changes: list[str]
    """Changes on this machine since the previous session, as sentences."""
    deadline: float
    """End of the session's time limit on the monotonic clock, in seconds; infinite without a limit."""
    boot_id: str | None
    """Boot id of this machine; None if it is unknown."""
    open_cases: dict[str, Case] = field(factory=dict)
    """Id → case, of the cases that have begun in this session and are not concluded."""

    @property
    def settings(self) -> Settings:
        """Settings of the campaign."""
        return self.directory.settings

    def write(self, event: str, **details: Any) -> None:
        """Append an entry to the journal, update the progress of the case that it is about, and call `watch` with it.

        `watch` gets the estimated seconds to the end of the campaign in addition, under the key `left`.

        Args:
            event: Kind of the entry, such as `attempt-ended`.
            details: Further fields of the entry, as JSON values. If `case`, the id of a case, is among them, the
                progress of this case is updated.

        Raises:
            StoreError: The entry cannot be written.
        """
        entry = self.directory.journal.append(event, **details)
        progress = self.cases.get(entry.get("case", ""))
        if progress is not None:
            progress.apply(entry)
        self.watch({**entry, "left": estimate.remaining_seconds(self.cases.values(), self.settings)})

    def pending(self) -> dict[str, int]:
        """Return a dict from the id of each case that is not concluded to the number of its finished repeats.

        The dict is in the campaign's order, and empty once the campaign is complete.
        """
        return {id: progress.finished for id, progress in self.cases.items() if progress.status is None}

    def seconds_left(self, limit: float = math.inf) -> float:
        """Return the seconds until the session's time limit, from 0 to `limit`; `limit` if the session has none."""
        return min(limit, max(0.0, self.deadline - time.monotonic()))

    def is_over(self) -> bool:
        """Return True if the session's time limit is reached."""
        return time.monotonic() >= self.deadline

    def is_ended_by_time(self, failure: Failure | None) -> bool:
        """Return True if a failure is a timeout after the session's time limit was reached; False for None."""
        return failure is not None and failure.kind == "timeout" and self.is_over()

    def has_exhausted_retries(self, progress: CaseProgress) -> bool:
        """Return True if a case has had more failures of some kind than the setting `retry` allows for that kind."""
        retry = self.settings.retry
        return any(count > retry.get(kind, 0) for kind, count in progress.failures.items())
