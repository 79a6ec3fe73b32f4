"""How far each case is: what its directory holds, joined with what the journal tells of its failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field

from dlperf_sdk import metrics
from dlperf_sdk.campaigns.campaign import Asked
from dlperf_sdk.campaigns.kept import Kept
from dlperf_sdk.errors import DlperfError, UnknownName
from dlperf_sdk.results.result import Result


@define
class Standing:
    """One case of a campaign, so far."""

    asked: Asked
    status: str | None = None
    """`ok`, or how it failed; None as long as it is not concluded."""
    ok: bool = True
    """Whether its integrity verdicts let the number stand, where it is concluded."""
    last_failure: str = ""
    """The kind of its last failure."""
    message: str = ""
    """How that was described."""
    throughputs: dict[int, float] = field(factory=dict)
    """Attempt → throughput in samples/s, of the finished repeats."""
    broken: list[int] = field(factory=list)
    """The numbers of the attempts that failed."""
    failures: Counter[str] = field(factory=Counter)
    """How often an attempt failed, by kind."""
    highest: int = 0
    """The highest number of an attempt that is over."""
    seconds: float = 0.0
    """That all its attempts took together."""
    times: list[float] = field(factory=list)
    """Seconds of each finished repeat, start and end included."""
    started_at: str | None = None
    batch_size: int | None = None
    """What `max` was found to be."""
    notes: list[str] = field(factory=list)
    problems: list[str] = field(factory=list)
    """What is wrong with what its directory holds."""

    @property
    def finished(self) -> int:
        """Finished repeats."""
        return len(self.throughputs)

    def hear(self, entry: Mapping[str, Any]) -> None:
        """One entry of the journal that is about this case."""
        self.notes += entry.get("notes", ())
        match entry["event"]:
            case "case-started":
                self.started_at = self.started_at or entry["time"]
                self.batch_size = entry.get("batch_size") or self.batch_size
            case "not-begun":
                self._failed(entry, "It could not be begun")
            case "attempt-ended":
                self.highest = max(self.highest, entry["attempt"])
                self.seconds += entry.get("seconds") or 0.0
                if entry["status"] == "ok":
                    self.throughputs[entry["attempt"]] = entry["throughput"]
                    if entry.get("seconds"):
                        self.times.append(entry["seconds"])
                else:
                    self.broken.append(entry["attempt"])
                    self._failed(entry, f"Attempt {entry['attempt']} failed")
            case "attempt-given-up":
                self.seconds += entry["seconds"]
            case "concluded":
                self.status, self.ok = entry["status"], entry.get("ok", True)
            case "reopened":
                self.status = None

    def _failed(self, entry: Mapping[str, Any], what: str) -> None:
        self.failures[entry["status"]] += 1
        self.last_failure, self.message = entry["status"], entry.get("message") or ""
        self.notes.append(f"{what} ({entry['status']}): {self.message}")


def told(cases: Iterable[Asked], entries: Iterable[Mapping[str, Any]]) -> dict[str, Standing]:
    """What the journal tells of each case; nothing else is read."""
    standings = {each.id: Standing(each) for each in cases}
    for entry in entries:
        standing = standings.get(entry.get("case", ""))
        if standing is not None:
            standing.hear(entry)
    return standings


def verified(kept: Kept) -> dict[str, Standing]:
    """How far each case is, by what its directory holds; where the journal knows less or more, that is mended in it.

    A result that cannot be read, or is another spec's, is no result: the case goes on from its attempts. An attempt
    that cannot be read is taken again.
    """
    standings = told(kept.cases, kept.journal.read())
    for standing in standings.values():
        id = standing.asked.id
        if not (kept.store.directory / id).is_dir():
            if standing.status is not None or standing.finished:
                standing.problems.append("its directory is gone; the case is measured again")
            _forget(standing)
            continue
        _attempts(kept, standing)
        result = _result(kept, standing)
        said = standing.status
        if result is not None:
            standing.status, standing.ok = result.status, result.ok
        if result is not None and said is None:
            kept.journal.append("concluded", case=id, status=result.status, ok=result.ok, found=True)
        elif result is None and said is not None:
            standing.hear(kept.journal.append("reopened", case=id))
    return standings


def _attempts(kept: Kept, standing: Standing) -> None:
    recovered = kept.store.recover(standing.asked.id)
    on_disk = {attempt.attempt: attempt for attempt in recovered.attempts}
    heard = {*standing.throughputs, *standing.broken}
    for number, attempt in on_disk.items():
        if number in heard:
            continue
        failure = attempt.failure
        entry = kept.journal.append(
            "attempt-ended",
            case=standing.asked.id,
            attempt=number,
            found=True,
            status=attempt.status,
            message=None if failure is None else failure.message,
            throughput=metrics.throughput(attempt.repeat) if failure is None else None,
        )
        standing.hear(entry)
    for number in [each for each in standing.throughputs if each not in on_disk]:
        del standing.throughputs[number]
        standing.problems.append(f"repeat {number} cannot be read, and is taken again")
    for unreadable in recovered.unreadable:
        if unreadable.path.name != "spec.json" and (unreadable.path / "attempt.json").exists():
            standing.problems.append(str(unreadable.error))


def _result(kept: Kept, standing: Standing) -> Result | None:
    path = kept.store.directory / standing.asked.id / "result.json"
    if not path.exists():
        return None
    try:
        result = kept.store.load(path)
    except (DlperfError, UnknownName) as error:
        standing.problems.append(f"its result cannot be read, and is made again: {error}")
        return None
    asked = standing.asked.spec
    if not asked.wants_largest and result.spec != asked:
        standing.problems.append("its result is of another spec, and is made again")
        return None
    if result.status == "ok" and len(result.repeats) != standing.finished:
        standing.problems.append("its result has other repeats than its directory, and is made again")
        return None
    return result


def _forget(standing: Standing) -> None:
    standing.status, standing.highest, standing.seconds, standing.started_at = None, 0, 0.0, None
    standing.message, standing.batch_size = "", None
    standing.throughputs.clear()
    standing.failures.clear()
    standing.times.clear()
    standing.broken.clear()
    standing.notes.clear()
