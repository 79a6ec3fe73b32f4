"""Tables about a campaign: its plan, and its progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dlperf_sdk.cli.lookup import unit_of
from dlperf_sdk.reports.blocks import Block, Cell, Column, Heading, Labels, Paragraph, Table, Tone
from dlperf_sdk.reports.numbers import duration, quantity

if TYPE_CHECKING:
    from dlperf_sdk.campaigns.campaign import Campaign
    from dlperf_sdk.campaigns.planning import Entry
    from dlperf_sdk.campaigns.status import Status

MAX_ROWS = 40
"""Maximum number of rows of a table of cases, unless all are requested."""


_TONES: dict[str, Tone] = {"ok": "good", "pending": "quiet", "under way": "plain", "interrupted": "doubt"}


def show_progress(status: Status, all: bool) -> list[Block]:
    """Return the progress of a campaign as blocks: a summary, then a table with a row per case.

    Args:
        status: The campaign's status.
        all: True for all cases; False for the first `MAX_ROWS` (40).
    """
    stand = Counter(map(status.condition, status.cases.values()))
    counts = ", ".join(f"{count:,} {condition}" for condition, count in sorted(stand.items()))
    pairs: list[tuple[str, Cell | str]] = [("cases", counts)]
    if status.controller:
        pairs.append(("controller", status.controller))
    if status.current is not None:
        case, attempt = status.current
        pairs.append(("now", f"{status.cases[case].case.spec.label}, repeat {attempt}"))
    if status.state != "complete":
        pairs.append(("time left", f"about {duration(status.left)}"))
    pairs += [("changed", Cell(change, "doubt")) for change in status.changes]
    pairs += [("damaged", Cell(damage, "doubt")) for damage in status.damages]
    tone = {"complete": "good", "running": "plain"}.get(status.state, "doubt")
    blocks: list[Block] = [Heading(status.name, Cell(status.state, tone)), Labels(tuple(pairs))]  # type: ignore[arg-type]
    return [*blocks, *_progress_table(status, all)]


def _progress_table(status: Status, all: bool) -> list[Block]:
    from dlperf_sdk.registry.plugins import Registry
    from dlperf_sdk.worker.estimate import median

    registry = Registry()
    models = {case.case.spec.model for case in status.cases.values() if case.throughputs}
    units = {model: unit_of(model, registry) for model in models}
    rows: list[tuple[Cell | str, ...]] = []
    for case in status.cases.values():
        state = status.condition(case)
        tone = _TONES.get(state, "bad")
        rate = ""
        if case.throughputs:
            rate = quantity(median(list(case.throughputs.values())), units[case.case.spec.model])
        repeats = f"{case.finished}/{case.case.spec.resolved_protocol().repeats}"
        rows.append((case.case.spec.label, Cell(state, tone), repeats, rate))
    visible = rows if all else rows[:MAX_ROWS]
    columns = (
        Column("case"),
        Column("status", whole=True),
        Column("repeats", right=True),
        Column("so far", right=True),
    )
    blocks: list[Block] = [Table(columns, tuple(visible))]
    if len(visible) < len(rows):
        blocks.append(Paragraph(f"{len(rows) - len(visible):,} more; --all shows them.", "quiet"))
    return blocks


def plan_of(
    campaign: Campaign, entries: Sequence[Entry], seconds: float, basis: str, all: bool
) -> list[Block]:
    """Return the plan of a campaign as blocks: its cases and repeats, and the skipped cases with their reasons.

    Args:
        campaign: The campaign.
        entries: Its cases, planned or refused.
        seconds: Estimated duration of the campaign in seconds.
        basis: Phrase that names the basis of the estimate, for display.
        all: True for all cases; False for the first `MAX_ROWS` (40).
    """
    skipped = [entry for entry in entries if entry.refusal is not None]
    runnable = [entry for entry in entries if entry.refusal is None]
    repeats = sum(entry.case.spec.resolved_protocol().repeats for entry in runnable)
    blocks: list[Block] = [Heading(campaign.name)]
    if campaign.description:
        blocks.append(Paragraph(campaign.description, "quiet"))
    blocks.append(
        Labels(
            (
                ("cases", f"{len(runnable):,} to run, {len(skipped):,} skipped"),
                ("repeats", f"{repeats:,}, each in new processes"),
                ("time", f"about {duration(seconds)}, {basis}"),
                (
                    "order",
                    f"{'interleaved' if campaign.settings.interleave else 'case after case'}, "
                    f"seed {campaign.settings.seed}",
                ),
            )
        )
    )
    blocks += _limit_rows(
        ("case", "from"), [(entry.case.spec.label, entry.location) for entry in runnable], all
    )
    reasons: dict[tuple[str, tuple[str, str]], list[Entry]] = {}
    for entry in skipped:
        assert entry.refusal is not None
        reasons.setdefault((entry.location, entry.refusal), []).append(entry)
    if reasons:
        rows = [
            (
                group[0].case.spec.label + (f" and {len(group) - 1} more" if len(group) > 1 else ""),
                location,
                f"{kind}: {reason}",
            )
            for (location, (kind, reason)), group in reasons.items()
        ]
        blocks += [Heading("Skipped"), *_limit_rows(("case", "from", "why"), rows, all)]
    return blocks


def _limit_rows(titles: Sequence[str], rows: Sequence[tuple[str, ...]], all: bool) -> list[Block]:
    """Return the first rows as a table, without columns that are empty: a sweep of flags has no file."""
    filled = [number for number in range(len(titles)) if any(row[number] for row in rows)]
    visible = [tuple(row[number] for number in filled) for row in (rows if all else rows[:MAX_ROWS])]
    columns = tuple(Column(titles[number]) for number in filled)
    blocks: list[Block] = [Table(columns, tuple(visible))] if visible else []
    if len(visible) < len(rows):
        blocks.append(Paragraph(f"{len(rows) - len(visible):,} more; --all shows them.", "quiet"))
    return blocks
