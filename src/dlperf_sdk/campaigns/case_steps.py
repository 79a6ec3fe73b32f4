"""Steps of a case around its attempts: begin it, and after each attempt retry, continue or conclude it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from dlperf_sdk import max_batch
from dlperf_sdk.campaigns.case_progress import CaseProgress
from dlperf_sdk.campaigns.session import Session
from dlperf_sdk.documents.reading import load_document
from dlperf_sdk.errors import (
    DlperfError,
    DocumentError,
    InvalidRecord,
    PluginError,
    RunFailed,
    StoreError,
    UsageError,
)
from dlperf_sdk.execution.case import Case
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.records import Failure
from dlperf_sdk.spec.run_spec import RunSpec

_OWN_ERRORS = (UsageError, PluginError)
"""Errors that affect one case only: between two cases a plugin, or something that a case names, may have changed."""


def begin_case(session: Session, progress: CaseProgress) -> Case | None:
    """Begin and prepare a case for its next attempts, and add it to `session.open_cases`.

    First it resolves a maximum batch size that is not known yet. Changes of the machine or the environment since
    the case's earlier attempts are noted in the journal.

    Args:
        session: The session.
        progress: Progress of the case; each entry of the journal updates it.

    Returns:
        The case, which has a failure if it cannot be run; None if the session's time limit ended the search for the
        maximum batch size.

    Raises:
        StoreError: The journal or the store cannot be written.
        KeyboardInterrupt: The user pressed Ctrl-C. All workers have been ended.
    """
    directory, id = session.directory, progress.case.id
    registry = Registry(session.registry.extra)  # a plugin may have been reinstalled between two cases
    resolved = _resolve_batch_size(session, progress, registry)
    if resolved is None:
        return None
    spec, refusal = resolved
    if progress.started_at is None:
        session.write("case-started", case=id)
    begin = partial(
        Case.begin,
        spec,
        directory.store,
        session.observers,
        registry,
        run_id=id,
        started_at=progress.started_at,
    )
    refusal = refusal or _final_failure(session, progress)
    try:
        case = begin(refusal=refusal)
    except StoreError:
        raise
    except _OWN_ERRORS as error:
        case = begin(refusal=_failure_of(error))
    before = read_environment(directory.store.directory / id / "environment.json") if progress.highest else {}
    with record_own_failures(case):
        case.prepare()
        case.check_parity()
    changes = [*session.host_changes, *_environment_changes(case, before)] if progress.highest else []
    if changes:
        notes = [f"Between two of its repeats: {change}" for change in changes]
        session.write("changed", case=id, notes=notes)
    if case.failure is not None and not session.has_exhausted_retries(progress):
        session.write("not-begun", case=id, status=case.failure.kind, message=case.failure.message)
    session.open_cases[id] = case
    return case


def _resolve_batch_size(
    session: Session, progress: CaseProgress, registry: Registry
) -> tuple[RunSpec, Failure | None] | None:
    """Return the spec with its batch size, and the failure if the maximum was not found; None if the time was up."""
    spec = progress.case.spec
    if progress.batch_size is not None:
        return attrs.evolve(spec, batch_size=progress.batch_size), None
    if not spec.wants_max_batch:
        return spec, None
    try:
        spec, refusal, note = max_batch.resolve_max_batch(
            spec, session.observers, registry, run_id=progress.case.id, deadline=session.deadline
        )
    except _OWN_ERRORS as error:
        spec, refusal = attrs.evolve(spec, batch_size=spec.accumulation), _failure_of(error)
        note = "batch_size max was not searched for."
    if session.is_ended_by_time(refusal):
        return None
    batch_size = None if refusal is not None else spec.batch_size
    session.write("case-started", case=progress.case.id, batch_size=batch_size, notes=[note])
    return spec, refusal


def _environment_changes(case: Case, before: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is different in the environment of a case, if an earlier session recorded it."""
    if before and case.environment is not None:
        if before.get("lock") != case.environment.lock:
            yield "the versions in its environment changed."
        if before.get("variables") != case.environment.variables:
            yield "the values of variables in its environment changed."


@contextmanager
def record_own_failures(case: Case) -> Iterator[None]:
    """Return a context manager that suppresses a `UsageError` or a `PluginError`, and records it as a case's failure.

    So the campaign's other cases continue. Other exceptions pass.

    Args:
        case: The case. If it has a failure already, that one is kept.

    Raises:
        StoreError: The store cannot be written; later cases could not be written either.
    """
    try:
        yield
    except StoreError:
        raise
    except _OWN_ERRORS as error:
        case.fail(_failure_of(error))


def _failure_of(error: DlperfError) -> Failure:
    return Failure(error.kind if isinstance(error, RunFailed) else "unavailable", str(error))


def settle_case(session: Session, progress: CaseProgress, case: Case) -> None:
    """Decide what follows an attempt of a case: another repeat, a retry, or the conclusion.

    - Another repeat: the case stays in `session.open_cases`. The next attempt is not started here.
    - A retry, after a failure for which the settings allow one: the case is removed from `session.open_cases`, so that
      it is begun again.
    - The conclusion, in all other cases: the result is written, and the case is removed from `session.open_cases`. If
      the case is complete and the settings request a trace, an extra attempt under the profiler is taken before.

    Args:
        session: The session.
        progress: Progress of the case.
        case: The case, after an attempt, or with a failure instead of one.

    Raises:
        StoreError: The journal or the store cannot be written.
        KeyboardInterrupt: The user pressed Ctrl-C. All workers have been ended.
    """
    settings, complete = session.settings, case.failure is None and case.stopping() is not None
    if case.failure is not None and not session.has_exhausted_retries(progress):
        del session.open_cases[case.id]  # it will be begun again
        return
    if case.failure is None and not complete:
        if settings.case_limit is None or progress.seconds < settings.case_limit:
            return
        message = f"All attempts together may take {settings.case_limit:.0f} s, and that time has passed."
        case.fail(Failure("timeout", message))
    if settings.trace and complete:
        case.trace()
    case.note(*progress.notes)
    try:
        result = case.conclude()
    except InvalidRecord as error:
        result = case.conclude_invalid(error)
    del session.open_cases[case.id]
    session.write("concluded", case=case.id, status=result.status, ok=result.ok)


def read_environment(path: Path) -> Mapping[str, Any]:
    """Return the environment of a case's workers, as JSON values, from the file `path` that an earlier session wrote.

    Empty if the file cannot be read.
    """
    with suppress(DocumentError):
        return load_document(path)
    return {}


def _final_failure(session: Session, progress: CaseProgress) -> Failure | None:
    """Return the failure of a case that an earlier session had no time to conclude; None where it may go on."""
    if not session.has_exhausted_retries(progress):
        return None
    attempts = session.directory.store.recover(progress.case.id).attempts
    if attempts and attempts[-1].failure is not None:
        return attempts[-1].failure
    return Failure(progress.last_failure, progress.message)
