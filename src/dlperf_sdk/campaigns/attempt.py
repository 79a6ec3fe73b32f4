"""One attempt at a repeat of a campaign's case: cool down, measure, and note disturbances."""

from __future__ import annotations

import math
import time

from dlperf_sdk.campaigns import machine_load
from dlperf_sdk.campaigns.case_progress import CaseProgress
from dlperf_sdk.campaigns.case_steps import record_own_failures
from dlperf_sdk.campaigns.session import Session
from dlperf_sdk.execution.case import Case
from dlperf_sdk.results import metrics
from dlperf_sdk.results.records import Repeat


def take_attempt(session: Session, progress: CaseProgress, case: Case) -> None:
    """Measure one repeat of a case, and write the attempt to the journal, which updates `progress`.

    Before the attempt, the function waits for the settings' `cooldown`, and then at most `quiet_wait` seconds until
    the machine is idle. The journal's entry has a note if other processes used the machine or its devices. An attempt
    that the session's time limit ended is withdrawn: it is no failure of the case, and is taken again after a resume.

    Args:
        session: State of the campaign's session, which writes the journal.
        progress: Progress of the case.
        case: The case, begun and prepared; the repeat or the failure is recorded in it.

    Raises:
        StoreError: The journal or the store cannot be written.
        KeyboardInterrupt: The user pressed Ctrl-C. All workers have been ended.
    """
    settings, number = session.settings, progress.highest + 1
    notes = _wait_before_attempt(session)
    spare = math.inf if settings.case_limit is None else max(0.0, settings.case_limit - progress.seconds)
    limit = session.seconds_left(spare)
    session.write("attempt-started", case=case.id, attempt=number)
    before, started_at, finished = machine_load.take_snapshot(), time.monotonic(), len(case.repeats)
    with record_own_failures(case):
        case.measure(number, None if math.isinf(limit) else started_at + limit)
    seconds = time.monotonic() - started_at
    foreign = machine_load.foreign_load(before, machine_load.take_snapshot())
    if session.is_ended_by_time(case.failure):
        case.withdraw_failure()
        session.write("attempt-given-up", case=case.id, attempt=number, seconds=seconds)
        return
    repeat = case.repeats[-1] if len(case.repeats) > finished else None
    if foreign.share > settings.quiet_share:
        notes.append(machine_load.note(foreign, f"During repeat {number}"))
    if repeat is not None:
        notes += _disturbances(session, case, repeat, f"During repeat {number}")
    session.write(
        "attempt-ended",
        case=case.id,
        attempt=number,
        status="ok" if case.failure is None else case.failure.kind,
        message=None if case.failure is None else case.failure.message,
        throughput=None if repeat is None else metrics.throughput(repeat),
        seconds=seconds,
        notes=notes,
    )


def _wait_before_attempt(session: Session) -> list[str]:
    """Cool down, wait for an idle machine, and return notes for the result."""
    settings = session.settings
    if settings.cooldown:
        time.sleep(session.seconds_left(settings.cooldown))
    if not settings.quiet_wait:
        return []
    session.write("waiting", share=settings.quiet_share)
    timeout = session.seconds_left(settings.quiet_wait)
    foreign = machine_load.wait_for_quiet(settings.quiet_share, timeout)
    return [] if foreign is None else [machine_load.note(foreign, f"After a wait of {timeout:.0f} s")]


def _disturbances(session: Session, case: Case, repeat: Repeat, period: str) -> list[str]:
    """Describe what other processes did on the other nodes, and on the devices, during a repeat."""
    shares = machine_load.foreign_load_by_node(repeat, case.hardware, session.boot_id)
    notes = [
        machine_load.describe_node_load(node, share, period)
        for node, share in shares.items()
        if share > session.settings.quiet_share
    ]
    notes += [
        machine_load.describe_device_processes(node, device, count, period)
        for (node, device), count in machine_load.count_device_processes(repeat).items()
    ]
    return notes
