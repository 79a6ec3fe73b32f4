"""Progress of a campaign's cases, from the journal and from the directories of their runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import attrs
from attrs import define, field, fields

from dlperf_sdk.campaigns.campaign import CampaignCase
from dlperf_sdk.campaigns.campaign_directory import CampaignDirectory
from dlperf_sdk.errors import FAILURES, DlperfError, UnknownName
from dlperf_sdk.results import metrics
from dlperf_sdk.results.consistency import list_contradictions
from dlperf_sdk.results.convert import Attempt
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.run_spec import RunSpec

ANY = "failed"
"""Name that stands for every kind of failure."""


@define
class CaseProgress:
    """Progress of one case of a campaign."""

    case: CampaignCase
    """The case."""
    status: str | None = None
    """`ok`, or the kind of failure; None until the case is concluded."""
    ok: bool = True
    """False if an integrity verdict failed. Meaningful once the case is concluded."""
    last_failure: str = ""
    """Kind of the last failure; empty without one."""
    message: str = ""
    """Message of the last failure."""
    throughputs: dict[int, float] = field(factory=dict)
    """Attempt → throughput in samples/s, of each finished repeat."""
    broken: list[int] = field(factory=list)
    """Numbers of the attempts that failed."""
    failures: Counter[str] = field(factory=Counter)
    """Kind of failure → number of failed attempts."""
    highest: int = 0
    """Highest number of an attempt that has ended."""
    seconds: float = 0.0
    """Seconds that all attempts took together."""
    times: list[float] = field(factory=list)
    """Seconds of each finished repeat, including the start and end of its processes."""
    started_at: str | None = None
    """Time of the first start: UTC, ISO 8601; None before it."""
    batch_size: int | None = None
    """Batch size that `max` was resolved to; None if it is not resolved or not requested."""
    notes: list[str] = field(factory=list)
    """Notes on the case, in order."""
    retried: bool = False
    """True if the case was concluded with a failure, and is tried again on request."""
    problems: list[str] = field(factory=list)
    """Problems with the contents of the case's directory, as sentences."""

    @property
    def conclusion(self) -> str:
        """The outcome of the case in a word.

        `pending` until the case is concluded, `invalid` if it finished and an integrity verdict failed, `ok` if it
        finished and none failed, else the kind of its failure.
        """
        return "invalid" if self.status == "ok" and not self.ok else self.status or "pending"

    @property
    def finished(self) -> int:
        """Number of finished repeats."""
        return len(self.throughputs)

    def apply(self, entry: Mapping[str, Any]) -> None:
        """Update the progress by one valid entry of the journal that is about this case.

        The notes of the entry are added, whatever its kind. Kinds that say nothing about the progress change nothing
        else.

        Args:
            entry: The entry, as `Journal.read` returns it.
        """
        self.notes += entry.get("notes", ())
        match entry["event"]:
            case "case-started":
                self.started_at = self.started_at or entry["time"]
                self.batch_size = entry.get("batch_size") or self.batch_size
            case "not-begun":
                self._record_failure(entry, "It could not be begun")
            case "attempt-ended":
                self.highest = max(self.highest, entry["attempt"])
                self.seconds += entry.get("seconds") or 0.0
                if entry["status"] == "ok":
                    self.throughputs[entry["attempt"]] = entry["throughput"]
                    if entry.get("seconds"):
                        self.times.append(entry["seconds"])
                else:
                    self.broken.append(entry["attempt"])
                    self._record_failure(entry, f"Attempt {entry['attempt']} failed")
            case "attempt-lost":
                self.throughputs.pop(entry["attempt"], None)
            case "attempt-given-up":
                self.seconds += entry["seconds"]
            case "concluded":
                self.status, self.ok, self.retried = entry["status"], entry.get("ok", True), False
            case "reopened":
                self.status = None
            case "retried":
                # Finished repeats stay; failures and their time no longer count.
                self.status, self.retried, self.seconds = None, True, 0.0
                self.failures.clear()
            case "forgotten":
                self._forget()

    def _forget(self) -> None:
        fresh = CaseProgress(self.case)
        for name in (
            attribute.name for attribute in fields(CaseProgress) if attribute.name not in ("case", "problems")
        ):
            setattr(self, name, getattr(fresh, name))

    def _record_failure(self, entry: Mapping[str, Any], summary: str) -> None:
        self.failures[entry["status"]] += 1
        self.last_failure, self.message = entry["status"], entry.get("message") or ""
        self.notes.append(f"{summary} ({entry['status']}): {self.message}")


def read_progress(
    cases: Iterable[CampaignCase], entries: Iterable[Mapping[str, Any]]
) -> dict[str, CaseProgress]:
    """Return the progress of each case, by its id, from the journal's entries alone.

    Args:
        cases: The cases of the campaign.
        entries: Valid entries of the journal, in order. Entries about other cases are ignored.

    Returns:
        Id of each case → its progress, in the order of `cases`.
    """
    by_id = {case.id: CaseProgress(case) for case in cases}
    for entry in entries:
        progress = by_id.get(entry.get("case", ""))
        if progress is not None:
            progress.apply(entry)
    return by_id


def verify_progress(directory: CampaignDirectory) -> dict[str, CaseProgress]:
    """Return the progress of each case, and append corrections to the journal where it contradicts the directories.

    A result does not count if it cannot be read, is of another spec, or contradicts its records: the case continues
    from its attempts. An attempt that cannot be read, or that changed after it had ended, is set aside and taken
    again. A directory of another spec is set aside, and the case is measured again. Each such problem is in
    `CaseProgress.problems`.

    Args:
        directory: The campaign. This process holds its lock.

    Returns:
        Id of each case → its progress, in the campaign's order.

    Raises:
        StoreError: The journal cannot be read or written, or a directory cannot be moved.
    """
    by_id = read_progress(directory.cases, directory.journal.read())
    for progress in by_id.values():
        id = progress.case.id
        problem = _loss_reason(directory, progress)
        if problem is not None:
            if progress.started_at is not None or progress.status is not None:
                progress.problems.append(problem)
                progress.apply(directory.journal.append("forgotten", case=id))
            continue
        _read_attempts(directory, progress)
        result = None if progress.retried else _read_result(directory, progress)
        recorded_status = progress.status
        if result is not None:
            progress.status, progress.ok = result.status, result.ok
        if result is not None and recorded_status is None:
            directory.journal.append("concluded", case=id, status=result.status, ok=result.ok, found=True)
        elif result is None and recorded_status is not None:
            progress.apply(directory.journal.append("reopened", case=id))
    return by_id


def find_failed(by_id: Mapping[str, CaseProgress], kinds: Iterable[str]) -> list[str]:
    """Return the ids of the concluded cases that failed with one of the given kinds, in the order of `by_id`.

    Args:
        by_id: Id of each case → its progress.
        kinds: Kinds of failure; `failed` stands for every kind. Empty: no case is selected.

    Raises:
        UnknownName: There is no such kind.
    """
    wanted_kinds = check_kinds(kinds)
    return [
        id
        for id, progress in by_id.items()
        if progress.status not in (None, "ok") and (ANY in wanted_kinds or progress.status in wanted_kinds)
    ]


def check_kinds(kinds: Iterable[str]) -> frozenset[str]:
    """Check that each kind of failure exists, and return the kinds as a set.

    `failed`, which stands for every kind, is accepted and stays in the set unchanged.

    Raises:
        UnknownName: A kind does not exist.
    """
    wanted_kinds = frozenset(kinds)
    for kind in sorted(wanted_kinds):
        if kind not in (ANY, *FAILURES):
            raise UnknownName("kind of failure to try again", kind, (ANY, *FAILURES))
    return wanted_kinds


def _loss_reason(directory: CampaignDirectory, progress: CaseProgress) -> str | None:
    """Return why the finished attempts cannot be continued; None if they can."""
    id, requested = progress.case.id, progress.case.spec
    if not (directory.store.directory / id).is_dir():
        return "its directory is gone; the case is measured again"
    spec = directory.store.recover(id).spec
    if spec is None or spec == _resolve_batch_size(requested, spec):
        return None
    set_aside = directory.set_aside(id)
    return f"its attempts were made with another spec; they lie in {set_aside} now, and the case is measured again"


def _resolve_batch_size(requested: RunSpec, measured: RunSpec) -> RunSpec:
    """Return the requested spec with the batch size that `max` was resolved to."""
    return attrs.evolve(requested, batch_size=measured.batch_size) if requested.wants_max_batch else requested


def _read_attempts(directory: CampaignDirectory, progress: CaseProgress) -> None:
    recovered = directory.store.recover(progress.case.id)
    on_disk = {attempt.attempt: attempt for attempt in recovered.attempts}
    known = {*progress.throughputs, *progress.broken}
    for unreadable in recovered.unreadable:
        # An attempt without attempt.json had not ended; its number is used again.
        if unreadable.path.name != "spec.json" and (unreadable.path / "attempt.json").exists():
            _set_aside(directory, progress, int(unreadable.path.name), f"cannot be read: {unreadable.error}")
    for number, attempt in on_disk.items():
        if number in progress.throughputs and not _matches_journal(attempt, progress.throughputs[number]):
            _set_aside(directory, progress, number, "is not what it was when it had ended.")
        if number in known:
            continue
        failure = attempt.failure
        entry = directory.journal.append(
            "attempt-ended",
            case=progress.case.id,
            attempt=number,
            found=True,
            status=attempt.status,
            message=None if failure is None else failure.message,
            throughput=metrics.throughput(attempt.repeat) if failure is None else None,
        )
        progress.apply(entry)
    for number in [throughput for throughput in progress.throughputs if throughput not in on_disk]:
        progress.problems.append(f"repeat {number} is gone, and is taken again")
        progress.apply(directory.journal.append("attempt-lost", case=progress.case.id, attempt=number))


def _matches_journal(attempt: Attempt, throughput: float) -> bool:
    """Return True if the throughput of an attempt equals the one in the journal."""
    if attempt.failure is not None or not isinstance(throughput, float):
        return False
    return math.isclose(metrics.throughput(attempt.repeat), throughput, rel_tol=1e-9)


def _set_aside(directory: CampaignDirectory, progress: CaseProgress, number: int, reason: str) -> None:
    """Set an attempt aside that does not count."""
    place = directory.set_aside(progress.case.id, number)
    progress.problems.append(f"Attempt {number} {reason} It lies in {place} now, and does not count.")
    progress.apply(directory.journal.append("attempt-lost", case=progress.case.id, attempt=number))


def _read_result(directory: CampaignDirectory, progress: CaseProgress) -> Result | None:
    path = directory.store.directory / progress.case.id / "result.json"
    if not path.exists():
        return None
    try:
        result = directory.store.load(path)
    except (DlperfError, UnknownName) as error:
        progress.problems.append(f"its result cannot be read, and is made again: {error}")
        return None
    if result.spec != _resolve_batch_size(progress.case.spec, result.spec):
        progress.problems.append("its result is of another spec, and is made again")
        return None
    if result.status == "ok" and len(result.repeats) != progress.finished:
        progress.problems.append("its result has other repeats than its directory, and is made again")
        return None
    problems = list_contradictions(result)
    if problems:
        progress.problems.append(f"its result is not what its records give, and is made again: {problems[0]}")
        return None
    return result
