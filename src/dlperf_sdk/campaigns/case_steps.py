"""What a campaign does with a case around its attempts: begin it, and after each attempt conclude it or go on."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import attrs

from dlperf_sdk import max_batch
from dlperf_sdk.campaigns.case_progress import Standing
from dlperf_sdk.campaigns.session import Session
from dlperf_sdk.documents.reading import load_document
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.execution.case import Case
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.records import Failure


def begin_case(session: Session, standing: Standing) -> Case | None:
    """Begin and prepare a case for its next attempts; where that is impossible the case has a failure.

    None where the session's time was up before.
    """
    kept, id = session.kept, standing.asked.id
    spec, refusal = standing.asked.spec, None
    registry = Registry(session.registry.extra)  # between two cases a plugin may have been installed anew
    if spec.wants_max_batch and standing.batch_size is None:
        spec, refusal, note = max_batch.resolved(
            spec, session.observers, registry, run_id=id, until=session.deadline
        )
        if session.ended_by_time(refusal):
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
    case.fail(refusal or _final_failure(session, standing))
    before = read_lock(kept.store.directory / id / "environment.json") if standing.highest else None
    case.prepare()
    changes = list(session.host_changes) if standing.highest else []
    if before is not None and case.environment is not None and before != case.environment.lock:
        changes.append("the versions in its environment changed.")
    if changes:
        notes = [f"Between two of its attempts: {change}" for change in changes]
        session.write("changed", case=id, notes=notes)
    if case.failure is not None and not session.retries_exhausted(standing):
        session.write("not-begun", case=id, status=case.failure.kind, message=case.failure.message)
    session.cases[id] = case
    return case


def settle_case(session: Session, standing: Standing, case: Case) -> None:
    """After an attempt, or in place of one: try the case again, go on with it, or conclude it."""
    settings, complete = session.settings, case.failure is None and case.stopping() is not None
    if case.failure is not None and not session.retries_exhausted(standing):
        del session.cases[case.id]  # it is begun again, with its failed attempt behind it
        return
    if case.failure is None and not complete:
        if settings.case_limit is None or standing.seconds < settings.case_limit:
            return
        message = f"All attempts together may take {settings.case_limit:.0f} s, and that time has passed."
        case.fail(Failure("timeout", message))
    if settings.trace and complete:
        case.trace()
    case.note(*standing.notes)
    result = case.conclude()
    del session.cases[case.id]
    session.write("concluded", case=case.id, status=result.status, ok=result.ok)


def read_lock(path: Path) -> str | None:
    """Return the versions that an earlier session recorded; None where there are none that can be read."""
    with suppress(DocumentError):
        return str(load_document(path).get("lock"))
    return None


def _final_failure(session: Session, standing: Standing) -> Failure | None:
    """Return the failure of a case that an earlier session had no time to conclude; None where it may go on."""
    if not session.retries_exhausted(standing):
        return None
    attempts = session.kept.store.recover(standing.asked.id).attempts
    if attempts and attempts[-1].failure is not None:
        return attempts[-1].failure
    return Failure(standing.last_failure, standing.message)
