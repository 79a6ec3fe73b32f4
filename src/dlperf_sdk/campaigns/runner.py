"""A campaign's controller: it takes attempt after attempt and stores each one, until all cases are concluded."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from attrs import frozen

from dlperf_sdk.campaigns import order, orphaned_jobs
from dlperf_sdk.campaigns.attempt import take_attempt
from dlperf_sdk.campaigns.campaign_directory import CampaignDirectory
from dlperf_sdk.campaigns.case_progress import (
    CaseProgress,
    check_kinds,
    find_failed,
    read_progress,
    verify_progress,
)
from dlperf_sdk.campaigns.case_steps import begin_case, settle_case
from dlperf_sdk.campaigns.edits import describe_edits
from dlperf_sdk.campaigns.host_info import describe_changes, describe_host
from dlperf_sdk.campaigns.journal import find_last
from dlperf_sdk.campaigns.session import Session, Watch
from dlperf_sdk.errors import StoreError, Unavailable
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.result import Result


@frozen
class Outcome:
    """Outcome of a campaign's session."""

    directory: CampaignDirectory
    """The campaign."""
    cases: dict[str, CaseProgress]
    """Id of each case → its progress."""
    ended: str
    """`complete`, or `time-limit` if the session's time limit was reached."""

    def results(self) -> Iterator[Result]:
        """Yield the results of the concluded cases in the campaign's order. Each is loaded when it is reached.

        Raises:
            StoreError, DocumentError: A result cannot be read.
        """
        for id, progress in self.cases.items():
            if progress.status is not None:
                yield self.directory.store.load(id)

    @property
    def exit_code(self) -> int:
        """Exit code of the session.

        - 0: all cases finished, and no integrity verdict failed.
        - 1: all cases finished, and an integrity verdict failed.
        - 4: all cases failed.
        - 5: some cases failed or are not concluded.
        """
        statuses = [case.status for case in self.cases.values()]
        if all(status == "ok" for status in statuses):
            return 0 if all(case.ok for case in self.cases.values()) else 1
        return 5 if "ok" in statuses or None in statuses else 4


def run_campaign(
    directory: CampaignDirectory,
    registry: Registry,
    observers: Observers,
    watch: Watch = lambda entry: None,
    retry: Iterable[str] = (),
) -> Outcome:
    """Run the remaining cases of a campaign, as its only controller.

    First the results and attempts on disk are checked, and jobs and agents that an earlier controller left are
    ended.

    Args:
        directory: The campaign.
        registry: The plugins.
        observers: Observers of every case.
        watch: Function that receives every entry of the journal after it has been written to the disk.
        retry: Kinds of failure, or `failed` for all. Concluded cases whose failure is of such a kind are tried again.

    Returns:
        The directory, the progress of all cases, failed ones included, and how the session ended.

    Raises:
        UnknownName: There is no such kind of failure; or a launcher, or an option of one, no longer exists.
        SpecError: An option of a launcher has an impossible value.
        StoreError: Another controller runs the campaign, jobs or agents of an earlier one cannot be ended, or the
            directory cannot be read or written. No case was started.
        Unavailable: The directory could no longer be written. Finished repeats are kept.
        PluginError: A launcher does not work, and no case was started.
        KeyboardInterrupt: The user pressed Ctrl-C. Everything has been ended, and the campaign can be resumed.
    """
    kinds = check_kinds(retry)
    with directory.lock():
        session = _open_session(directory, registry, observers, watch)
        _reopen(session, kinds)
        try:
            ended = _run_until_done(session)
            session.write("ended", how=ended)
        except KeyboardInterrupt:
            with suppress(StoreError):
                session.write("interrupted")
            raise
        except StoreError as error:
            advice = f"then go on with `dlperf campaign resume {directory.path}`."
            raise Unavailable(
                f"The campaign was ended: {error} What is finished is kept; {advice}"
            ) from error
        return Outcome(directory, session.cases, ended)


def _open_session(
    directory: CampaignDirectory, registry: Registry, observers: Observers, watch: Watch
) -> Session:
    """Wait until nothing of an earlier session runs, check what it left, and write the session's first entries."""
    journal, damages = directory.journal.read_checked()
    before = find_last(journal, "session")
    if before is not None or damages:
        pending = [
            state.case for state in read_progress(directory.cases, journal).values() if state.status is None
        ]
        orphaned_jobs.cancel_orphaned_jobs(
            pending, registry, lambda jobs: watch(directory.journal.append("ending-left", jobs=jobs))
        )
    orphaned_jobs.wait_for_processes(case.id for case in directory.cases)
    host = describe_host(registry)
    host_changes = [] if before is None else describe_changes(before["host"], host)
    by_id = verify_progress(directory)
    limit = directory.settings.campaign_limit
    deadline = math.inf if limit is None else time.monotonic() + limit
    boot_id = host["machine"].get("boot_id")
    session = Session(directory, registry, observers, watch, by_id, host_changes, deadline, boot_id)
    edited = [] if before is None else describe_edits(directory)
    session.write("session", host=host, changes=[*host_changes, *edited])
    reported = {entry["text"] for entry in journal if entry["event"] == "problem"}
    for damage in damages:
        text = f"{damage} What it said is taken from the attempts."
        if text not in reported:
            session.write("problem", text=text)
    for id, progress in by_id.items():
        for problem in progress.problems:
            session.write("problem", case=id, text=problem)
    return session


def _reopen(session: Session, kinds: Iterable[str]) -> None:
    """Retry the cases that ended in a failure of these kinds."""
    kinds = sorted(kinds)
    failed = find_failed(session.cases, kinds)
    for id in failed:
        note = f"Retried as requested: the earlier attempt ended in {session.cases[id].status}."
        session.write("retried", case=id, notes=[note])
    if kinds and not failed:
        session.write("nothing-to-retry", kinds=kinds)


def _run_until_done(session: Session) -> str:
    """Take attempt after attempt; return `complete` or `time-limit`."""
    settings, ids = session.settings, [case.id for case in session.directory.cases]
    while pending := session.pending():
        if session.is_over():
            return "time-limit"
        id = order.choose_next_case(ids, pending, settings.seed, settings.interleave, settings.adjacent)
        progress = session.cases[id]
        case = session.open_cases.get(progress.case.id) or begin_case(session, progress)
        if case is not None:
            if case.failure is None and case.stopping() is None:
                take_attempt(session, progress, case)
            settle_case(session, progress, case)
    return "complete"
