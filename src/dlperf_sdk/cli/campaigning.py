"""`campaign run`, `resume`, `status` and `plan`: many cases, unattended."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from dlperf_sdk.cli.screen import AS_USUAL, INTERRUPTED, Common, command, complain, emit, err, say, show
from dlperf_sdk.report.blocks import Block, Cell, Column, Heading, Labels, Paragraph, Table
from dlperf_sdk.report.numbers import counted, duration, quantity

if TYPE_CHECKING:
    from dlperf_sdk.campaigns.campaign import Campaign
    from dlperf_sdk.campaigns.kept import Kept
    from dlperf_sdk.campaigns.planning import Entry
    from dlperf_sdk.campaigns.runner import Outcome
    from dlperf_sdk.campaigns.status import Status

campaign = App(
    name="campaign", help="Carry out a matrix of cases, unattended, and go on where it was left.", sort_key=50
)

FILE = Annotated[
    str,
    Parameter(help="A campaign file (.yaml, .toml, .json), or preset:NAME; `campaign presets` lists them."),
]
QUIET = Annotated[
    bool,
    Parameter(name=["--quiet", "-q"], negative=(), show_default=False, help="No progress: only the table."),
]
SHOWN = 40
"""Rows of a table of cases, unless all are asked for."""


@campaign.command
@command
def run(
    file: FILE,
    /,
    *,
    output: Annotated[
        Path | None,
        Parameter(
            metavar="DIR", help="Directory of this campaign; a new one in dlperf-campaigns unless given."
        ),
    ] = None,
    seed: Annotated[int | None, Parameter(help="Decides the order, instead of the file's.")] = None,
    max_cases: Annotated[
        int | None, Parameter(metavar="N", help="The most cases to take on, instead of the file's.")
    ] = None,
    trace: Annotated[
        bool,
        Parameter(
            negative=(),
            show_default=False,
            help="Trace every case as well, in an extra attempt, for Perfetto.",
        ),
    ] = False,
    quiet: QUIET = False,
    common: Common = AS_USUAL,
) -> int:
    """Measure all cases of a campaign. Every finished repeat is on disk before the next starts."""
    from dlperf_sdk import api
    from dlperf_sdk.campaigns.kept import keep

    asked, stamp, entries = _planned(file, seed=seed, max_cases=max_cases, trace=trace or None)
    path = api.DEFAULT_CAMPAIGNS / f"{stamp}-{asked.name}" if output is None else output
    return _carry_out(keep(path, asked, entries, stamp), quiet, common)


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
            help="Try cases again that ended so: out-of-memory, timeout, crashed, …; `failed` is any of them.",
        ),
    ] = (),
    quiet: QUIET = False,
    common: Common = AS_USUAL,
) -> int:
    """Go on with a campaign where it was left, having checked what is there."""
    from dlperf_sdk.campaigns.kept import open_kept

    return _carry_out(open_kept(directory), quiet, common, retry)


@campaign.command
@command
def status(
    directory: Annotated[Path, Parameter(help="A campaign's directory.")],
    /,
    *,
    all: Annotated[
        bool, Parameter(negative=(), show_default=False, help="Every case, however many.")
    ] = False,
    common: Common = AS_USUAL,
) -> int:
    """Say how far a campaign is; also while it is being carried out."""
    from dlperf_sdk.campaigns.kept import open_kept
    from dlperf_sdk.campaigns.status import status as status_of

    found = status_of(open_kept(directory))
    if common.json:
        emit(found.to_dict())
    else:
        show(_blocks(found, all))
    return 0


@campaign.command
@command
def plan(
    file: FILE,
    /,
    *,
    all: Annotated[
        bool, Parameter(negative=(), show_default=False, help="Every case, however many.")
    ] = False,
    max_cases: Annotated[
        int | None, Parameter(metavar="N", help="The most cases to take on, instead of the file's.")
    ] = None,
    common: Common = AS_USUAL,
) -> int:
    """List a campaign's cases, what is skipped and why, and guess how long it takes. Nothing is started."""
    return show_plan(file, all, common, max_cases=max_cases)


@campaign.command
@command
def presets(*, common: Common = AS_USUAL) -> int:
    """List the campaigns that come with dlperf-sdk."""
    from dlperf_sdk.campaigns import file

    found = {name: file.load(f"{file.PRESET}{name}") for name in file.presets()}
    if common.json:
        emit({name: {"description": each.description, "cases": len(each)} for name, each in found.items()})
    else:
        rows = [(f"{file.PRESET}{name}", f"{len(each):,}", each.description) for name, each in found.items()]
        show([Table((Column("preset", whole=True), Column("cases", right=True), Column("")), tuple(rows))])
    return 0


def is_campaign(what: str) -> bool:
    """Whether a word names a campaign rather than one case: a preset, or a file that has cases to combine."""
    if what.startswith("preset:"):
        return True
    from dlperf_sdk.documents import load_document
    from dlperf_sdk.errors import DlperfError

    if not Path(what).is_file():
        return False
    try:
        document = load_document(Path(what))
    except DlperfError:
        return False
    return bool({"axes", "matrices", "extends", "include", "zip"} & set(document))


def show_plan(file: str, all: bool, common: Common, **settings: Any) -> int:
    """What `campaign plan` prints."""
    asked, _, entries = _planned(file, **settings)
    from dlperf_sdk.campaigns import estimate
    from dlperf_sdk.campaigns.standing import Standing

    runnable = [each for each in entries if each.refusal is None]
    seconds = estimate.left([Standing(each.asked) for each in runnable], asked.settings.cooldown)
    if common.json:
        cases = [
            {
                "case": each.asked.id,
                "from": each.asked.where,
                "spec": each.asked.spec.to_dict(),
                "skipped": None
                if each.refusal is None
                else {"kind": each.refusal[0], "reason": each.refusal[1]},
            }
            for each in entries
        ]
        emit({"name": asked.name, "cases": cases, "seconds_guessed": seconds})
    else:
        show(_plan_blocks(asked, entries, seconds, all))
    return 0


def _planned(file: str, **settings: Any) -> tuple[Campaign, str, list[Entry]]:
    from dlperf_sdk.campaigns.campaign import campaign_of
    from dlperf_sdk.campaigns.file import load
    from dlperf_sdk.campaigns.planning import planned
    from dlperf_sdk.registry import Registry

    asked = campaign_of(load(file), **{name: value for name, value in settings.items() if value is not None})
    return asked, *planned(asked, Registry())


def _carry_out(kept: Kept, quiet: bool, common: Common, again: tuple[str, ...] = ()) -> int:
    from dlperf_sdk import hookspecs
    from dlperf_sdk.campaigns.runner import go_on
    from dlperf_sdk.cli.campaign_view import view
    from dlperf_sdk.registry import Registry

    say(f"{kept.name}: {counted(len(kept.cases), 'case')} in {kept.path}")
    try:
        if quiet:
            outcome = go_on(kept, Registry(), hookspecs.Observers(hookspecs.listeners()), again=again)
        else:
            console = err()
            with view(console, kept, live=sys.stderr.isatty() and not console.is_dumb_terminal) as shown:
                observers = hookspecs.Observers(hookspecs.listeners([shown]))
                outcome = go_on(kept, Registry(), observers, shown.hear, again)
    except KeyboardInterrupt:
        said = f"Interrupted. What is finished is kept; go on with `dlperf campaign resume {kept.path}`."
        return complain(KeyboardInterrupt(said), common, INTERRUPTED)
    return _present(outcome, common)


def _present(outcome: Outcome, common: Common) -> int:
    from dlperf_sdk.campaigns.status import status as status_of
    from dlperf_sdk.report import several

    found = status_of(outcome.kept)
    if common.json:
        emit({**found.to_dict(), "ended": outcome.ended, "directory": str(outcome.kept.path)})
    else:
        show([*several.pages(list(outcome.results())), *_blocks(found, False)[:2]])
    if outcome.ended != "complete":
        say(f"The time is up. Go on with `dlperf campaign resume {outcome.kept.path}`.", "yellow")
    return outcome.exit_code


def _blocks(found: Status, all: bool) -> list[Block]:
    counts = ", ".join(f"{count:,} {status}" for status, count in sorted(found.counts.items()))
    pairs: list[tuple[str, Cell | str]] = [("cases", counts)]
    if found.controller:
        pairs.append(("controller", found.controller))
    if found.current is not None:
        from dlperf_sdk.campaigns.status import named

        case, attempt = found.current
        pairs.append(("now", f"{named(found.standings[case].asked.spec)}, repeat {attempt}"))
    if found.state != "complete":
        pairs.append(("time left", f"about {duration(found.left)}"))
    pairs += [("changed", Cell(each, "doubt")) for each in found.changes]
    tone = {"complete": "good", "running": "plain"}.get(found.state, "doubt")
    blocks: list[Block] = [Heading(found.name, Cell(found.state, tone)), Labels(tuple(pairs))]  # type: ignore[arg-type]
    return [*blocks, *_standing_table(found, all)]


def _standing_table(found: Status, all: bool) -> list[Block]:
    from dlperf_sdk.campaigns.status import named
    from dlperf_sdk.worker.estimate import median

    rows: list[tuple[Cell | str, ...]] = []
    for each in found.standings.values():
        state = each.status or ("pending" if not each.finished else "under way")
        tone: Any = {"ok": "good", "pending": "quiet", "under way": "plain"}.get(state, "bad")
        rate = quantity(median(list(each.throughputs.values())), "samples/s") if each.throughputs else ""
        repeats = f"{each.finished}/{each.asked.spec.resolved_protocol().repeats}"
        rows.append((named(each.asked.spec), Cell(state, tone), repeats, rate))
    shown = rows if all else rows[:SHOWN]
    columns = (
        Column("case"),
        Column("status", whole=True),
        Column("repeats", right=True),
        Column("so far", right=True),
    )
    blocks: list[Block] = [Table(columns, tuple(shown))]
    if len(shown) < len(rows):
        blocks.append(Paragraph(f"{len(rows) - len(shown):,} more; --all shows them.", "quiet"))
    return blocks


def _plan_blocks(asked: Campaign, entries: list[Entry], seconds: float, all: bool) -> list[Block]:
    from dlperf_sdk.campaigns.status import named

    skipped = [each for each in entries if each.refusal is not None]
    runnable = [each for each in entries if each.refusal is None]
    repeats = sum(each.asked.spec.resolved_protocol().repeats for each in runnable)
    blocks: list[Block] = [Heading(asked.name)]
    if asked.description:
        blocks.append(Paragraph(asked.description, "quiet"))
    blocks.append(
        Labels(
            (
                ("cases", f"{len(runnable):,} to run, {len(skipped):,} skipped"),
                ("repeats", f"{repeats:,}, each in new processes"),
                ("time", f"about {duration(seconds)}, a guess until repeats have been measured"),
                (
                    "order",
                    f"{'interleaved' if asked.settings.interleave else 'case after case'}, seed {asked.settings.seed}",
                ),
            )
        )
    )
    blocks += _limited("case", [(named(each.asked.spec), each.asked.where) for each in runnable], "from", all)
    reasons: dict[tuple[str, str], list[Entry]] = {}
    for each in skipped:
        assert each.refusal is not None
        reasons.setdefault(each.refusal, []).append(each)
    if reasons:
        rows = [
            (
                named(many[0].asked.spec) + (f" and {len(many) - 1} more" if len(many) > 1 else ""),
                f"{kind}: {why}",
            )
            for (kind, why), many in reasons.items()
        ]
        blocks += [Heading("Skipped"), *_limited("case", rows, "why", all)]
    return blocks


def _limited(title: str, rows: list[tuple[str, str]], second: str, all: bool) -> list[Block]:
    shown = rows if all else rows[:SHOWN]
    blocks: list[Block] = [Table((Column(title), Column(second)), tuple(shown))] if shown else []
    if len(shown) < len(rows):
        blocks.append(Paragraph(f"{len(rows) - len(shown):,} more; --all shows them.", "quiet"))
    return blocks
