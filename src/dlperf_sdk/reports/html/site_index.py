"""The first page of a site: all cases of a store, and all changes."""

from __future__ import annotations

from collections.abc import Sequence

import dlperf_sdk
from dlperf_sdk.analysis.history import Change, History
from dlperf_sdk.reports.blocks import Cell, Column, Paragraph, Table
from dlperf_sdk.reports.history import METHOD, format_last_change, format_newest, short_sparkline
from dlperf_sdk.reports.html.page import Folded, Item, Page, Section, Sortable, Tile
from dlperf_sdk.reports.numbers import format_count, quantity

_MOST_UNREADABLE = 100


def index_page(histories: Sequence[History], unreadable: Sequence[tuple[str, str]]) -> Page:
    """Return the first page, with a row per history, a row per change (newest first), and the unreadable results.

    Args:
        histories: The histories.
        unreadable: (name, reason) of each run that cannot be read; the first hundred are listed.

    Raises:
        ValueError: A history has no run.
    """
    count = sum(len(history.runs) for history in histories)
    states = [_state(history) for history in histories]
    changes = [(history, change) for history in histories for change in history.changes]
    changes.sort(key=lambda pair: pair[1].after.started_at, reverse=True)
    sections = (
        Section("Cases", (Sortable(_cases_table(histories, states), ("state", "hardware"), 50),)),
        Section("Changes", _list_changes(changes, histories)),
        Section("Unreadable results", _list_unreadable(unreadable)),
    )
    return Page(
        title="Benchmark history",
        lede="The throughput of each case over time. Choose a case for its plot, its changes and its runs.",
        tiles=(
            Tile("Cases", f"{len(histories):,}", format_count(count, "run")),
            _count_tile("Newest run failed", states, "failed", "bad"),
            _count_tile("Last change is a slowdown", states, "slower", "bad"),
            _count_tile("Last change is a speedup", states, "faster", "good"),
        ),
        sections=tuple(section for section in sections if section.items),
        colophon=f"Made by dlperf-sdk {dlperf_sdk.__version__} from {format_count(count, 'run')}.",
    )


def case_address(history: History) -> str:
    """Return the address of a case's page, relative to the first page: `cases/KEY.html` with the key of the history."""
    return f"cases/{history.key}.html"


def _state(history: History) -> Cell:
    if history.newest.throughput is None:
        return Cell("failed", "bad")
    if not history.changes:
        # Without the numbers, because the table has a filter with each state.
        return Cell("too few runs" if history.has_too_few_runs else "no change", "quiet")
    return Cell("slower", "bad") if history.changes[-1].ratio < 1 else Cell("faster", "good")


def _count_tile(label: str, states: Sequence[Cell], text: str, tone: str) -> Tile:
    count = sum(state.text == text for state in states)
    return Tile(label, f"{count:,}", "", "bad" if count and tone == "bad" else "plain")


def _cases_table(histories: Sequence[History], states: Sequence[Cell]) -> Table:
    # A column with one value for all cases is left out.
    differs = len({history.hardware for history in histories}) > 1
    columns = (
        Column("case", key=True),
        *((Column("hardware"),) if differs else ()),
        Column("throughput", right=True),
        Column("history", whole=True),
        Column("state"),
        Column("last change", whole=True),
        Column("newest run", whole=True),
        Column("runs", right=True),
    )
    rows = tuple(
        (
            Cell(history.name, link=case_address(history)),
            *((Cell(history.hardware or "unknown"),) if differs else ()),
            format_newest(history),
            Cell(short_sparkline(history)),
            state,
            format_last_change(history),
            Cell(history.newest.day),
            Cell(str(len(history.runs))),
        )
        for history, state in zip(histories, states, strict=True)
    )
    return Table(columns, rows, format_count(len(histories), "case"))


def _list_changes(
    changes: Sequence[tuple[History, Change]], histories: Sequence[History]
) -> tuple[Item, ...]:
    if not changes:
        short = sum(history.has_too_few_runs for history in histories)
        sentences = [
            *(["No change was found."] if short < len(histories) else []),
            *(
                [f"Cases with too few runs to show a change: {short:,} of {len(histories):,}."]
                if short
                else []
            ),
        ]
        return (Paragraph(" ".join(sentences)), Paragraph(METHOD, "quiet"))
    columns = (
        Column("case", key=True),
        Column("day", whole=True),
        Column("change", right=True),
        Column("throughput since", right=True),
        Column("differs at the change"),
    )
    rows = tuple(
        (
            Cell(history.name, link=case_address(history)),
            Cell(change.after.day),
            Cell(change.percent, "bad" if change.ratio < 1 else "good"),
            Cell(quantity(_level_after(history, change), history.unit)),
            Cell(", ".join(change.differences) or "no version or label"),
        )
        for history, change in changes
    )
    table = Table(columns, rows, f"{format_count(len(changes), 'change')}, newest first")
    return (Sortable(table, (), 25), Paragraph(METHOD, "quiet"))


def _level_after(history: History, change: Change) -> float:
    return history.levels[history.changes.index(change) + 1].throughput


def _list_unreadable(unreadable: Sequence[tuple[str, str]]) -> tuple[Item, ...]:
    if not unreadable:
        return ()
    notes = [Paragraph(f"{name}: {reason}", "doubt") for name, reason in unreadable[:_MOST_UNREADABLE]]
    if len(unreadable) > len(notes):
        notes.append(Paragraph(f"And {len(unreadable) - len(notes):,} more.", "quiet"))
    return (Folded(format_count(len(unreadable), "result"), tuple(notes), "doubt"),)
