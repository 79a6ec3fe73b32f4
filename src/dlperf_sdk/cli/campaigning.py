"""`campaign run`, `resume`, `status`, `plan`, `presets` and `schema`: many cases, unattended."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from dlperf_sdk.cli import campaign_tables
from dlperf_sdk.cli.common_flags import ALLOW, QUIET, UPLOAD, switch
from dlperf_sdk.cli.output import say_uploaded
from dlperf_sdk.cli.screen import AS_USUAL, Common, command, emit, say, show
from dlperf_sdk.folders import CAMPAIGNS
from dlperf_sdk.reports.blocks import Column, Table
from dlperf_sdk.reports.numbers import format_count

if TYPE_CHECKING:
    from dlperf_sdk.campaigns.campaign import Campaign
    from dlperf_sdk.campaigns.campaign_directory import CampaignDirectory
    from dlperf_sdk.campaigns.runner import Outcome
    from dlperf_sdk.execution.uploading import Uploader

campaign = App(
    name="campaign", help="Run a matrix of cases unattended, resume it, show its status.", sort_key=50
)

FILE = Annotated[
    str,
    Parameter(help="A campaign file (.yaml, .toml, .json), or preset:NAME; `campaign presets` lists them."),
]


@campaign.command
@command
def run(
    file: FILE,
    /,
    *,
    output: Annotated[
        Path | None,
        Parameter(metavar="DIR", help="Directory of this campaign. Default: a new one in dlperf-campaigns."),
    ] = None,
    seed: Annotated[int | None, Parameter(help="Seed of the order of cases, instead of the file's.")] = None,
    max_cases: Annotated[
        int | None, Parameter(metavar="N", help="Maximum number of cases, instead of the file's.")
    ] = None,
    trace: Annotated[bool, switch("Trace every case as well, in an extra attempt, for Perfetto.")] = False,
    store: UPLOAD = None,
    quiet: QUIET = False,
    common: Common = AS_USUAL,
) -> int:
    """Measure all cases of a campaign. Every finished repeat is on disk before the next starts.

    Exit codes: 0 all cases finished and are valid; 1 all cases finished, and a validity check failed; 4 all cases
    failed; 5 some cases failed or are not finished.
    """
    from dlperf_sdk.campaigns.campaign_directory import create_campaign
    from dlperf_sdk.campaigns.planning import list_runnable, plan_campaign
    from dlperf_sdk.execution.controlling import controlling
    from dlperf_sdk.execution.uploading import make_uploaders
    from dlperf_sdk.registry.plugins import Registry
    from dlperf_sdk.results.store import ResultStore

    resolved = _load(file, seed=seed, max_cases=max_cases, trace=trace or None)
    stamp, entries = plan_campaign(resolved, Registry())
    path = CAMPAIGNS / f"{stamp}-{resolved.name}" if output is None else output
    uploaders = make_uploaders(store, ResultStore(path / "runs"))
    with controlling(list_runnable(entries), Registry()) as set_exit_code:
        created = create_campaign(path, resolved, entries, stamp)
        exit_code = _carry_out(created, quiet, common, uploaders)
        set_exit_code(exit_code)
    return exit_code


@campaign.command
@command
def resume(
    directory: Annotated[Path, Parameter(help="A campaign's directory.")],
    /,
    *,
    retry: Annotated[
        tuple[str, ...],
        Parameter(
            metavar="KIND",
            consume_multiple=True,
            negative=(),
            show_default=False,
            help="Retry cases that failed with: out-of-memory, timeout, crashed, …; `failed` is any failure.",
        ),
    ] = (),
    allow: ALLOW = (),
    store: UPLOAD = None,
    quiet: QUIET = False,
    common: Common = AS_USUAL,
) -> int:
    """Continue a campaign, after checking its directory.

    Exit codes: 0 all cases finished and are valid; 1 all cases finished, and a validity check failed; 4 all cases
    failed; 5 some cases failed or are not finished.
    """
    from dlperf_sdk.campaigns.campaign_directory import reopen_campaign
    from dlperf_sdk.execution.controlling import controlling
    from dlperf_sdk.execution.uploading import make_uploaders
    from dlperf_sdk.registry.plugins import Registry

    reopened = reopen_campaign(directory, allow)
    uploaders = make_uploaders(store, reopened.store)
    with controlling([case.spec for case in reopened.cases], Registry()) as set_exit_code:
        exit_code = _carry_out(reopened, quiet, common, uploaders, retry)
        set_exit_code(exit_code)
    return exit_code


@campaign.command
@command
def status(
    directory: Annotated[Path, Parameter(help="A campaign's directory.")],
    /,
    *,
    all: Annotated[bool, switch("Show every case, however many.")] = False,
    common: Common = AS_USUAL,
) -> int:
    """Show the progress of a campaign, running or not."""
    from dlperf_sdk.campaigns.campaign_directory import open_campaign
    from dlperf_sdk.campaigns.status import status as status_of

    campaign_status = status_of(open_campaign(directory))
    if common.json:
        emit(campaign_status.to_dict())
    else:
        show(campaign_tables.show_progress(campaign_status, all))
        if campaign_status.state == "stopped":
            say(f"Go on with `dlperf campaign resume {directory}`.")
    return 0


@campaign.command
@command
def plan(
    file: FILE,
    /,
    *,
    all: Annotated[bool, switch("Show every case, however many.")] = False,
    max_cases: Annotated[
        int | None, Parameter(metavar="N", help="Maximum number of cases, instead of the file's.")
    ] = None,
    measured: Annotated[
        Path | None,
        Parameter(
            metavar="DIR",
            help="Estimate the duration from the repeats of this campaign directory, complete or not.",
        ),
    ] = None,
    common: Common = AS_USUAL,
) -> int:
    """List a campaign's cases, skipped cases with reasons, and the estimated duration. Nothing is started."""
    return show_plan(_load(file, max_cases=max_cases), all, common, measured)


@campaign.command
@command
def presets(*, common: Common = AS_USUAL) -> int:
    """List the campaigns that come with dlperf-sdk."""
    from dlperf_sdk.campaigns import file

    available = {name: file.load_campaign(f"{file.PRESET}{name}") for name in file.list_presets()}
    if common.json:
        emit(
            {
                name: {"description": preset.description, "cases": preset.size}
                for name, preset in available.items()
            }
        )
    else:
        rows = [
            (f"{file.PRESET}{name}", f"{preset.size:,}", preset.description)
            for name, preset in available.items()
        ]
        show([Table((Column("preset", whole=True), Column("cases", right=True), Column("")), tuple(rows))])
    return 0


@campaign.command(name="schema")
@command
def print_schema(*, common: Common = AS_USUAL) -> int:
    """Print the self-contained JSON Schema of campaign files, which editors use for completion."""
    from dlperf_sdk.documents import schema

    emit(schema.embed_references("campaign"))
    return 0


def show_plan(campaign: Campaign, all: bool, common: Common, measured: Path | None = None) -> int:
    """Print the cases, skipped cases and estimated duration of a campaign, and return the exit code, which is 0.

    With `--json`, this is one JSON object. It is the output of `dlperf campaign plan`.

    Args:
        campaign: The campaign.
        all: True to list all cases.
        common: The options `--json` and `--debug`.
        measured: Directory of a campaign whose repeats the estimated duration is based on; None: no repeats.

    Raises:
        CampaignError: The campaign is invalid, has no case or too many, or none of its cases can be run here.
        SpecError: A predicate asks for a property of a topology that is malformed.
        PluginError: A plugin that a case needs does not work, and the settings do not skip such cases.
        StoreError, DocumentError, UnknownName: There is no readable campaign in `measured`.
        UsageError: Standard output cannot be written.
    """
    from dlperf_sdk.campaigns import estimate
    from dlperf_sdk.campaigns.campaign_directory import open_campaign
    from dlperf_sdk.campaigns.case_progress import read_progress
    from dlperf_sdk.campaigns.planning import plan_campaign
    from dlperf_sdk.registry.plugins import Registry

    _, entries = plan_campaign(campaign, Registry())
    directory = None if measured is None else open_campaign(measured)
    known = (
        [] if directory is None else list(read_progress(directory.cases, directory.journal.read()).values())
    )
    runnable = [entry.case for entry in entries if entry.refusal is None]
    seconds = estimate.total_seconds(runnable, known, campaign.settings)
    basis = (
        f"by the {format_count(sum(len(case.times) for case in known), 'repeat')} in {measured}"
        if any(case.times for case in known)
        else "a guess until repeats have been measured"
    )
    if common.json:
        cases = [
            {
                "case": entry.case.id,
                "from": entry.location,
                "spec": entry.case.spec.to_dict(),
                "skipped": None
                if entry.refusal is None
                else {"kind": entry.refusal[0], "reason": entry.refusal[1]},
            }
            for entry in entries
        ]
        emit({"name": campaign.name, "cases": cases, "seconds_guessed": seconds})
    else:
        show(campaign_tables.plan_of(campaign, entries, seconds, basis, all))
    return 0


def _load(file: str, **settings: Any) -> Campaign:
    from dlperf_sdk.campaigns.campaign import make_campaign
    from dlperf_sdk.campaigns.file import load_campaign

    chosen = {name: value for name, value in settings.items() if value is not None}
    return make_campaign(load_campaign(file), **chosen)


def _carry_out(
    directory: CampaignDirectory,
    quiet: bool,
    common: Common,
    uploaders: tuple[Uploader, ...],
    retry: tuple[str, ...] = (),
) -> int:
    exit_code = present(run_shown(directory, quiet, retry, uploaders), common)
    say_uploaded(uploaders)
    return exit_code


def run_shown(
    directory: CampaignDirectory,
    quiet: bool,
    retry: tuple[str, ...] = (),
    observers: Sequence[Any] = (),
) -> Outcome:
    """Run a campaign, show its progress unless `quiet`, and return its outcome.

    Args:
        directory: The campaign.
        quiet: True to show no progress.
        retry: Kinds of failure, or `failed` for all. Concluded cases whose failure is of such a kind are measured
            again.
        observers: Observers besides the installed ones.

    Raises:
        KeyboardInterrupt: The user pressed Ctrl-C; the message says how to continue.
        UnknownName: There is no such kind of failure; or a launcher, or an option of one, no longer exists.
        SpecError: An option of a launcher has an impossible value.
        StoreError: Another controller runs the campaign, jobs or agents of an earlier one cannot be ended, or the
            directory cannot be read or written. No case was started.
        Unavailable: The directory could no longer be written. Finished repeats are kept.
        PluginError: A plugin that is needed, or a given observer, does not work.
    """
    from dlperf_sdk.campaigns.runner import run_campaign
    from dlperf_sdk.cli.campaign_view import view
    from dlperf_sdk.cli.consoles import error_console
    from dlperf_sdk.hookspecs import Observers
    from dlperf_sdk.registry.plugins import Registry

    say(f"{directory.name}: {format_count(len(directory.cases), 'case')} in {directory.path}")
    try:
        if quiet:
            return run_campaign(directory, Registry(), Observers.load(observers), retry=retry)
        console = error_console()
        with view(console, directory, live=sys.stderr.isatty() and not console.is_dumb_terminal) as observer:
            loaded = Observers.load([*observers, observer])
            return run_campaign(directory, Registry(), loaded, observer.apply, retry)
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(
            f"Interrupted. What is finished is kept; go on with `dlperf campaign resume {directory.path}`."
        ) from error


def present(outcome: Outcome, common: Common) -> int:
    """Print the results and the state of a campaign, and return the exit code.

    With `--json`, only the state is printed, as one JSON object. The code is 0 if all cases finished and are valid, 1
    if all cases finished and an integrity verdict failed, 4 if all cases failed, else 5.

    Args:
        outcome: Outcome of the campaign's session.
        common: The options `--json` and `--debug`.

    Raises:
        StoreError, DocumentError: The journal or a result cannot be read.
        UsageError: Standard output cannot be written.
    """
    from dlperf_sdk.campaigns.status import status as status_of
    from dlperf_sdk.reports import results_table

    campaign_status = status_of(outcome.directory)
    if common.json:
        emit({**campaign_status.to_dict(), "ended": outcome.ended, "directory": str(outcome.directory.path)})
    else:
        show(
            [
                *results_table.pages(list(outcome.results())),
                *campaign_tables.show_progress(campaign_status, False)[:2],
            ]
        )
    if outcome.ended != "complete":
        say(f"The time is up. Go on with `dlperf campaign resume {outcome.directory.path}`.", "yellow")
    return outcome.exit_code
