"""A campaign's controller: attempt by attempt, each on disk before the next, until nothing is left to do."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import attrs
from attrs import define, field, frozen

from dlperf_sdk import max_batch
from dlperf_sdk.campaigns import estimate, machine_load, order, orphaned_jobs
from dlperf_sdk.campaigns.campaign_directory import Kept
from dlperf_sdk.campaigns.case_progress import Standing, check_kinds, ended_in, told, verified
from dlperf_sdk.campaigns.edits import edits
from dlperf_sdk.campaigns.host_info import changes, surroundings
from dlperf_sdk.campaigns.journal import last
from dlperf_sdk.documents.reading import load_document
from dlperf_sdk.errors import DocumentError, StoreError, Unavailable
from dlperf_sdk.execution.case import Case
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results import metrics
from dlperf_sdk.results.records import Failure
from dlperf_sdk.results.result import Result

Watch = Callable[[dict[str, Any]], None]
"""Is told every entry of the journal when it is on the disk; from the session's on with `left`, the seconds that are
estimated."""


@frozen
class Outcome:
    """How a session of a campaign ended."""

    kept: Kept
    standings: dict[str, Standing]
    ended: str
    """`complete`, or `time-limit` where the session's time was up."""

    def results(self) -> Iterator[Result]:
        """The results of the cases that are concluded, in the campaign's order; each is read when it is asked for."""
        for id, standing in self.standings.items():
            if standing.status is not None:
                yield self.kept.store.load(id)

    @property
    def exit_code(self) -> int:
        """0 all well, 1 a verdict failed, 4 all failed, 5 some failed or are left."""
        statuses = [each.status for each in self.standings.values()]
        if all(status == "ok" for status in statuses):
            return 0 if all(each.ok for each in self.standings.values()) else 1
        return 5 if "ok" in statuses or None in statuses else 4


@define
class _Session:
    kept: Kept
    registry: Registry
    observers: Observers
    watch: Watch
    standings: dict[str, Standing]
    news: list[str]
    """What changed since the session before."""
    until: float
    """When the session's time is up, on the monotonic clock."""
    boot_id: str | None
    """Of this machine."""
    cases: dict[str, Case] = field(factory=dict)
    """Those that have been begun in this session and are not concluded."""

    def write(self, event: str, **about: Any) -> None:
        """An entry in the journal, heard by whom it concerns."""
        entry = self.kept.journal.append(event, **about)
        standing = self.standings.get(entry.get("case", ""))
        if standing is not None:
            standing.hear(entry)
        self.watch({**entry, "left": estimate.left(self.standings.values(), self.kept.settings)})


def go_on(
    kept: Kept,
    registry: Registry,
    observers: Observers,
    watch: Watch = lambda entry: None,
    again: Iterable[str] = (),
) -> Outcome:
    """Carry out what of a campaign is left, as its only controller.

    `again` names kinds of failure, or `failed` for all: cases that had ended so are tried again.

    Raises:
        UnknownName: there is no such kind.
        StoreError: another controller is at work, what an earlier one left cannot be ended, or nothing can be written.
        Unavailable: in the middle nothing could be written any more. What was finished is kept.
        PluginError: a plugin that is needed does not work.
        KeyboardInterrupt: as it was; everything has been ended, and the campaign can be resumed.
    """
    settings, kinds = kept.settings, check_kinds(again)
    with kept.held():
        journal = kept.journal.read()
        before = last(journal, "session")
        if before is not None:
            pending = [each.asked for each in told(kept.cases, journal).values() if each.status is None]
            orphaned_jobs.end_queued(
                pending, registry, lambda jobs: watch(kept.journal.append("ending-left", jobs=jobs))
            )
        orphaned_jobs.wait(each.id for each in kept.cases)
        now = surroundings(registry)
        news = [] if before is None else changes(before["surroundings"], now)
        standings = verified(kept)
        limit = math.inf if settings.campaign_limit is None else settings.campaign_limit
        until, boot_id = time.monotonic() + limit, now["machine"].get("boot_id")
        session = _Session(kept, registry, observers, watch, standings, news, until, boot_id)
        edited = [] if before is None else edits(kept)
        session.write("session", surroundings=now, changes=[*news, *edited])
        for id, standing in standings.items():
            for problem in standing.problems:
                session.write("problem", case=id, text=problem)
        _reopen(session, kinds)
        try:
            ended = _until_done(session)
            session.write("ended", how=ended)
        except KeyboardInterrupt:
            with suppress(StoreError):
                session.write("interrupted")
            raise
        except StoreError as error:
            then = f"then go on with `dlperf campaign resume {kept.path}`."
            raise Unavailable(f"The campaign was ended: {error} What is finished is kept; {then}") from error
        return Outcome(kept, standings, ended)


def _reopen(session: _Session, kinds: Iterable[str]) -> None:
    """Let the cases be tried again that had ended in a failure of these kinds."""
    asked = sorted(kinds)
    found = ended_in(session.standings, asked)
    for id in found:
        said = f"Tried again, as was asked for, after it had ended in {session.standings[id].status}."
        session.write("retried", case=id, notes=[said])
    if asked and not found:
        session.write("nothing-to-retry", kinds=asked)


def _until_done(session: _Session) -> str:
    settings, ids = session.kept.settings, [each.id for each in session.kept.cases]
    while True:
        pending = {id: each.finished for id, each in session.standings.items() if each.status is None}
        if not pending:
            return "complete"
        if time.monotonic() >= session.until:
            return "time-limit"
        standing = session.standings[order.next_case(ids, pending, settings.seed, settings.interleave)]
        case = session.cases.get(standing.asked.id) or _begun(session, standing)
        if case is None:
            continue
        if case.failure is None and case.stopping() is None:
            _attempt(session, standing, case)
        _judge(session, standing, case)


def _begun(session: _Session, standing: Standing) -> Case | None:
    """A case that an attempt can be made of; one that cannot has a failure. None where the time was up before."""
    kept, id = session.kept, standing.asked.id
    spec, refusal = standing.asked.spec, None
    registry = Registry(session.registry.extra)  # between two cases a plugin may have been installed anew
    if spec.wants_max_batch and standing.batch_size is None:
        spec, refusal, note = max_batch.resolved(
            spec, session.observers, registry, run_id=id, until=session.until
        )
        if _time_is_up(session, refusal):
            return None
        found = None if refusal is not None else spec.batch_size
        session.write("case-started", case=id, batch_size=found, notes=[note])
    elif standing.batch_size is not None:
        spec = attrs.evolve(spec, batch_size=standing.batch_size)
    if standing.started_at is None:
        session.write("case-started", case=id)
    case = Case.begin(
        spec, kept.store, session.observers, registry, run_id=id, started_at=standing.started_at
    )
    case.fail(refusal or _final(session, standing))
    before = _lock_of(kept.store.directory / id / "environment.json") if standing.highest else None
    case.prepare()
    news = [f"Between two of its attempts: {each}" for each in session.news] if standing.highest else []
    environment = case.environment
    if before is not None and environment is not None and before != environment.lock:
        news.append("Between two of its attempts the versions in its environment changed.")
    if news:
        session.write("changed", case=id, notes=news)
    failure = case.failure
    if failure is not None and not _exhausted(session, standing):
        session.write("not-begun", case=id, status=failure.kind, message=failure.message)
    session.cases[id] = case
    return case


def _lock_of(path: Path) -> str | None:
    """The versions that an earlier session noted; None where it noted none, or that cannot be read."""
    with suppress(DocumentError):
        return str(load_document(path).get("lock"))
    return None


def _exhausted(session: _Session, standing: Standing) -> bool:
    """Whether it has failed more often than it may be tried again."""
    retry = session.kept.settings.retry
    return any(count > retry.get(kind, 0) for kind, count in standing.failures.items())


def _final(session: _Session, standing: Standing) -> Failure | None:
    """The failure of a case that an earlier session had no time to conclude; None where it may go on."""
    if not _exhausted(session, standing):
        return None
    attempts = session.kept.store.recover(standing.asked.id).attempts
    if attempts and attempts[-1].failure is not None:
        return attempts[-1].failure
    return Failure(standing.last_failure, standing.message)


def _attempt(session: _Session, standing: Standing, case: Case) -> None:
    """One attempt, and its line in the journal."""
    settings = session.kept.settings
    notes = _rest(session)
    number = standing.highest + 1
    spare = math.inf if settings.case_limit is None else settings.case_limit - standing.seconds
    limit = min(time.monotonic() + max(0.0, spare), session.until)
    session.write("attempt-started", case=case.id, attempt=number)
    before, began, had = machine_load.snapshot(), time.monotonic(), len(case.repeats)
    case.measure(number, None if math.isinf(limit) else limit)
    seconds = time.monotonic() - began
    found = machine_load.foreign(before, machine_load.snapshot())
    if found.share > settings.quiet_share:
        notes.append(machine_load.note(found, f"During attempt {number}"))
    finished = len(case.repeats) > had
    if finished:
        elsewhere = machine_load.foreign_on(case.repeats[-1], case.hardware, session.boot_id)
        notes += [
            machine_load.node_note(node, share, f"During attempt {number}")
            for node, share in elsewhere.items()
            if share > settings.quiet_share
        ]
        notes += [
            machine_load.company_note(node, device, others, f"During attempt {number}")
            for (node, device), others in machine_load.company(case.repeats[-1]).items()
        ]
    failure = case.failure
    if _time_is_up(session, failure):
        case.withdraw_failure()
        session.write("attempt-given-up", case=case.id, attempt=number, seconds=seconds)
        return
    session.write(
        "attempt-ended",
        case=case.id,
        attempt=number,
        status="ok" if failure is None else failure.kind,
        message=None if failure is None else failure.message,
        throughput=metrics.throughput(case.repeats[-1]) if finished else None,
        seconds=seconds,
        notes=notes,
    )


def _time_is_up(session: _Session, failure: Failure | None) -> bool:
    """Whether a case failed since the session's time was up, which is nothing that the case did."""
    return failure is not None and failure.kind == "timeout" and time.monotonic() >= session.until


def _rest(session: _Session) -> list[str]:
    """What comes between attempts, and what there is to say about it."""
    settings = session.kept.settings
    if settings.cooldown:
        time.sleep(min(settings.cooldown, max(0.0, session.until - time.monotonic())))
    if not settings.quiet_wait:
        return []
    session.write("waiting", share=settings.quiet_share)
    patience = min(settings.quiet_wait, max(0.0, session.until - time.monotonic()))
    loud = machine_load.wait_for_quiet(settings.quiet_share, patience)
    return [] if loud is None else [machine_load.note(loud, f"After a wait of {patience:.0f} s")]


def _judge(session: _Session, standing: Standing, case: Case) -> None:
    """After an attempt, or in place of one: is the case to be tried again, gone on with, or concluded?"""
    settings, failure = session.kept.settings, case.failure
    if failure is not None and not _exhausted(session, standing):
        del session.cases[case.id]  # it is begun again, with its failed attempt behind it
        return
    done = failure is None and case.stopping() is not None
    if failure is None and not done:
        if settings.case_limit is None or standing.seconds < settings.case_limit:
            return
        said = f"All attempts together may take {settings.case_limit:.0f} s, and that time has passed."
        case.fail(Failure("timeout", said))
    if settings.trace and done:
        case.trace()
    case.note(*standing.notes)
    result = case.conclude()
    del session.cases[case.id]
    session.write("concluded", case=case.id, status=result.status, ok=result.ok)
