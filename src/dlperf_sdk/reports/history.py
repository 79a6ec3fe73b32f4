"""Show histories of cases: one in full, or several in a table."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from dlperf_sdk.analysis.change_points import MIN_VALUES
from dlperf_sdk.analysis.history import TIME, Change, History, Run
from dlperf_sdk.reports.blocks import (
    ABSENT,
    Block,
    Cell,
    Column,
    Heading,
    Labels,
    Paragraph,
    Table,
    Verbatim,
    interval_cell,
)
from dlperf_sdk.reports.numbers import common_scale, format_count, quantity
from dlperf_sdk.reports.run_context import format_labels
from dlperf_sdk.reports.sparkline import mark_positions, sparkline

METHOD = (
    "Change points: the segmentation of least penalized rank cost (Killick et al. 2012; Lung-Yut-Fong et al. 2015). "
    "About 5 % of histories without a change show one, and more if runs are correlated. A change needs three runs "
    "after it, and nine in all."
)
_WIDTH = 60
_SHORT_WIDTH = 12
_NEWEST = 10
"""Runs that are listed on a terminal."""


def history_page(history: History) -> list[Block]:
    """Return the page of one case as blocks: a summary, a sparkline, the levels, and the ten newest runs.

    Without a valid run, sparkline and levels are left out.

    Raises:
        IndexError: The history has no run.
    """
    valid = history.valid
    blocks: list[Block] = [Heading(history.name, _summarize_changes(history)), Labels(list_summary(history))]
    if valid:
        values = [run.throughput or 0.0 for run in valid]
        positions = [valid.index(change.after) for change in history.changes]
        lines = [sparkline(values, _WIDTH), mark_positions(positions, len(values), _WIDTH)]
        scale = common_scale([min(values), max(values)], history.unit)
        span = f"{scale(min(values))} to {scale.with_unit(max(values))}"
        title = f"Throughput from {span}, over {describe_order(history)}"
        blocks.append(Verbatim("\n".join(line for line in lines if line), title))
        blocks.append(levels_table(history))
    blocks.append(_newest_table(history))
    return [*blocks, Paragraph(METHOD, "quiet")]


def overview(histories: Sequence[History]) -> list[Block]:
    """Return a table with a row per history, and a paragraph on how to see the history of a single case.

    The hardware has a column if the histories differ in it.

    Raises:
        ValueError: A history has no run.
    """
    # A column with one value for all cases is left out.
    differs = len({history.hardware for history in histories}) > 1
    columns = (
        Column("case"),
        *((Column("hardware"),) if differs else ()),
        Column("runs", right=True),
        Column("newest", whole=True),
        Column("throughput", right=True),
        Column("history", whole=True),
        Column("last change"),
    )
    rows = tuple(
        (
            Cell(history.name),
            *((Cell(history.hardware or "unknown"),) if differs else ()),
            Cell(str(len(history.runs))),
            Cell(history.newest.day),
            format_newest(history),
            Cell(short_sparkline(history)),
            format_last_change(history),
        )
        for history in histories
    )
    return [
        Table(columns, rows),
        Paragraph("The words of one case show its history.", "quiet"),
    ]


def list_summary(history: History) -> tuple[tuple[str, Cell | str], ...]:
    """Return pairs of a label and a text or cell: hardware, number and extent of the runs, newest run, and key.

    The extent is the time, version or label of the first run and of the last. The key is that of the history.

    Raises:
        IndexError: The history has no run.
    """
    first, last = history.runs[0], history.runs[-1]
    failed = len(history.runs) - len(history.valid)
    counts = [format_count(len(history.runs), "run")]
    if failed:
        counts.append(f"{failed} failed")
    if history.omitted:
        reason = "older" if history.order == TIME else f"older or without {history.order}"
        counts.append(f"{history.omitted} not shown ({reason})")
    return (
        ("Hardware", history.hardware or "unknown"),
        (
            "Runs",
            f"{', '.join(counts)}; {_format_position(first, history.order)} to {_format_position(last, history.order)}",
        ),
        ("Newest run", format_newest(history)),
        ("Key", history.key),
    )


def _summarize_changes(history: History) -> Cell:
    """Return the number of changes, and the size and day of the last one, as a cell.

    Without a change, the cell tells whether the history has enough runs to show one.
    """
    last = format_last_change(history)
    if not history.changes:
        return last
    return Cell(f"{format_count(len(history.changes), 'change')}, the last {last.text}", last.tone)


def format_last_change(history: History) -> Cell:
    """Format the last change of a history with its day (UTC) as a cell: `−3.1 % on 2026-03-14`.

    Without a change, the cell is `no change` or `too few runs (4 of 9)`: the first number is that of valid runs, the
    second the minimum that can show a change.
    """
    if history.changes:
        return format_change(history.changes[-1])
    if history.has_too_few_runs:
        return Cell(f"too few runs ({len(history.valid)} of {MIN_VALUES})", "quiet")
    return Cell("no change", "quiet")


def format_change(change: Change) -> Cell:
    """Format a change's size, and the day (UTC) of the first run after it, as a cell: `−3.1 % on 2026-03-14`.

    The tone is `bad` for a slowdown, and `good` for a speedup.
    """
    return Cell(f"{change.percent} on {change.after.day}", "bad" if change.ratio < 1 else "good")


def format_newest(history: History) -> Cell:
    """Return a cell with the throughput of the newest run and its unit or, if the run is not valid, with its problem.

    Raises:
        ValueError: The history has no run.
    """
    newest = history.newest
    if newest.throughput is None:
        return Cell(newest.problem, "bad")
    return Cell(quantity(newest.throughput, history.unit))


def short_sparkline(history: History) -> str:
    """Return a sparkline of the throughputs of all valid runs, at most 12 characters wide; empty without any."""
    return sparkline([run.throughput or 0.0 for run in history.valid], _SHORT_WIDTH)


def format_time(run: Run) -> str:
    """Format the start of a run, in UTC: `2026-03-14 10:15`."""
    return run.started_at[:16].replace("T", " ")


def describe_order(history: History) -> str:
    """Return the name of the runs' order as words for a sentence, such as `time` or `framework version`."""
    return history.order.replace("_", " ")


def levels_table(history: History) -> Table:
    """Return a table with a row per level of a history, in order.

    A row has the position of the level's first and last run (by time, version or label, as the history is ordered), the
    number of runs, the level's throughput in the unit of the history, its change in percent from the previous level,
    and the versions and labels that differ between the two levels.

    Raises:
        ValueError: The history has no level, because it has no valid run.
    """
    scale = common_scale([level.throughput for level in history.levels], history.unit)
    columns = (
        Column("from", whole=True),
        Column("to", whole=True),
        Column("runs", right=True),
        Column(f"throughput, {scale.unit}", right=True),
        Column("change", right=True),
        Column("differs at the change"),
    )
    changes: list[Change | None] = [None, *history.changes]
    rows = []
    for level, change in zip(history.levels, changes, strict=True):
        size = Cell("")
        if change is not None:
            size = Cell(change.percent, "bad" if change.ratio < 1 else "good")
        rows.append(
            (
                Cell(_format_position(level.runs[0], history.order)),
                Cell(_format_position(level.runs[-1], history.order)),
                Cell(str(len(level.runs))),
                Cell(scale(level.throughput)),
                size,
                Cell("" if change is None else ", ".join(change.differences) or "no version or label"),
            )
        )
    return Table(columns, tuple(rows), "Levels")


def runs_table(history: History, runs: Sequence[Run]) -> Table:
    """Return a table with a row for each of the given runs of a history, failed ones included, in their order.

    A row has the start, the throughput or the problem, the interval, the versions, the labels and the name of the run.
    """
    values = [run.throughput for run in runs if run.throughput is not None]
    scale = common_scale(values or [1.0], history.unit)
    columns = (
        Column("started", whole=True, key=True),
        Column(f"throughput, {scale.unit}", right=True),
        Column("95 % interval", right=True),
        Column("versions"),
        Column("labels"),
        Column("run", whole=True),
    )
    rows = tuple(
        (
            Cell(format_time(run)),
            Cell(run.problem, "bad") if run.throughput is None else Cell(scale(run.throughput)),
            ABSENT if run.throughput is None else interval_cell(run.low, run.high, scale.interval),
            Cell(", ".join(run.versions.values())),
            Cell(format_labels(run.labels)),
            Cell(run.id),
        )
        for run in runs
    )
    return Table(columns, rows, "Runs")


def _newest_table(history: History) -> Table:
    """Return a row per run of the newest, with the columns that fit a terminal."""
    table = runs_table(history, history.runs[-_NEWEST:][::-1])
    indexes = [
        index for index, column in enumerate(table.columns) if column.title not in ("started", "versions")
    ]
    selected = table.select(indexes[-1:] + indexes[:-1])
    return evolve(selected, title=f"Newest runs of {len(history.runs)}")


def _format_position(run: Run, order: str) -> str:
    return run.day if order == TIME else str(run.value(order))
