"""Read the progress of a campaign from its directory: also from another shell, while it is carried out."""

from __future__ import annotations

from collections import Counter
from typing import Any

from attrs import frozen

from dlperf_sdk.campaigns import estimate
from dlperf_sdk.campaigns.campaign_directory import CampaignDirectory
from dlperf_sdk.campaigns.case_progress import CaseProgress, read_progress
from dlperf_sdk.campaigns.journal import find_last, read_holder
from dlperf_sdk.worker.estimate import median


@frozen
class Status:
    """A campaign at one moment."""

    name: str
    state: str
    """`running`, `complete`, or `stopped` (it can be resumed)."""
    controller: str
    """Controller that carries it out now; empty if none does."""
    cases: dict[str, CaseProgress]
    current: tuple[str, int] | None
    """Case and attempt that are under way."""
    left: float
    """Seconds, estimated."""
    changes: tuple[str, ...]
    """Changes between its last two sessions."""
    sessions: int

    def condition(self, progress: CaseProgress) -> str:
        """Return a case's conclusion, or its state if it has started and is not concluded.

        The state is `under way` while a controller is running, else `interrupted`.
        """
        if progress.status is not None or (progress.started_at is None and not progress.finished):
            return progress.conclusion
        return "under way" if self.state == "running" else "interrupted"

    @property
    def counts(self) -> dict[str, int]:
        """Cases by conclusion."""
        return dict(Counter(case.conclusion for case in self.cases.values()))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "name": self.name,
            "state": self.state,
            "controller": self.controller,
            "counts": self.counts,
            "current": None
            if self.current is None
            else {"case": self.current[0], "attempt": self.current[1]},
            "seconds_left": self.left,
            "changes": list(self.changes),
            "sessions": self.sessions,
            "cases": [
                {
                    "case": id,
                    "status": progress.status or "pending",
                    "ok": progress.ok if progress.status else None,
                    "finished": progress.finished,
                    "repeats": progress.case.spec.resolved_protocol().repeats,
                    "failures": dict(progress.failures),
                    "message": progress.message,
                    "throughput": median(list(progress.throughputs.values()))
                    if progress.throughputs
                    else None,
                    "batch_size": progress.batch_size or progress.case.spec.batch_size,
                }
                for id, progress in self.cases.items()
            ],
        }


def status(directory: CampaignDirectory) -> Status:
    """Return the campaign's status from its journal, without changing anything or waiting for its lock.

    Raises:
        StoreError: the journal cannot be read.
    """
    entries = directory.journal.read()
    by_id = read_progress(directory.cases, entries)
    running = directory.is_locked()
    complete = all(progress.status is not None for progress in by_id.values())
    session = find_last(entries, "session")
    current = None
    if running:
        started, ended = find_last(entries, "attempt-started"), entries[-1] if entries else None
        if started is not None and ended is not None and ended["event"] == "attempt-started":
            current = (started["case"], started["attempt"])
    return Status(
        directory.name,
        "running" if running else "complete" if complete else "stopped",
        read_holder(directory.path / "lock") if running else "",
        by_id,
        current,
        estimate.remaining_seconds(by_id.values(), directory.settings),
        tuple(session["changes"]) if session else (),
        sum(entry["event"] == "session" for entry in entries),
    )
