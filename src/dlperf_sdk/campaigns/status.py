"""The status of a campaign, read from its directory, also from another shell while it is running."""

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
    """State of a campaign at one moment."""

    name: str
    """Name of the campaign."""
    state: str
    """`running`, `complete`, or `stopped` (it can be resumed)."""
    controller: str
    """Process and host of the controller; empty if none is running."""
    cases: dict[str, CaseProgress]
    """Id of each case → its progress."""
    current: tuple[str, int] | None
    """Id of the case and number of the attempt that are under way; None between attempts."""
    left: float
    """Estimated seconds until the campaign is complete."""
    changes: tuple[str, ...]
    """Changes on the machine and in the campaign's file before the last session, as sentences."""
    sessions: int
    """Number of sessions so far."""
    damages: tuple[str, ...]
    """Damaged lines of the journal, which are skipped: a sentence each, which begins with `FILE:LINE`."""

    def condition(self, progress: CaseProgress) -> str:
        """Return the condition of a case in a word or two.

        It is the conclusion (`ok`, `invalid` or the kind of failure) of a concluded case, `pending` for one that has
        not started, and for any other `under way` if a controller is running, else `interrupted`.
        """
        if progress.status is not None or (progress.started_at is None and not progress.finished):
            return progress.conclusion
        return "under way" if self.state == "running" else "interrupted"

    @property
    def counts(self) -> dict[str, int]:
        """The number of cases by conclusion, without conclusions that no case has.

        A conclusion is `ok`, `invalid` (measured, but an integrity verdict failed) or a kind of failure. Cases that are
        not concluded, started or not, count as `pending`.
        """
        return dict(Counter(case.conclusion for case in self.cases.values()))

    def to_dict(self) -> dict[str, Any]:
        """Return the status as JSON values.

        The keys `name`, `state`, `controller`, `counts`, `changes`, `sessions` and `damages` have the values of these
        attributes, and `seconds_left` has that of `left`. `current` is null, or an object with `case` (an id) and
        `attempt` (a number). `cases` is a list with an object per case, in the campaign's order, with the keys:

        - `case`: the id.
        - `status`: `pending` until the case is concluded; then `ok`, or the kind of its failure.
        - `ok`: null until the case is concluded; then true if it finished and no integrity verdict failed.
        - `finished` and `repeats`: numbers of finished and of required repeats.
        - `failures`: an object, kind of failure → number.
        - `message`: the last failure's message; empty if there is none.
        - `throughput`: the median so far in samples per second; null without a finished repeat.
        - `batch_size`: the batch size; `max` while the maximum is not known.
        """
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
            "damages": list(self.damages),
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
    """Return the campaign's status from its journal. Nothing is changed, and the campaign's lock is not waited for.

    Raises:
        StoreError: The journal cannot be read.
    """
    entries, damages = directory.journal.read_checked()
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
        tuple(damages),
    )
