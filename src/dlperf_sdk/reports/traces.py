"""Tables of what profilers' traces show: of one result, or of a few side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dlperf_sdk.reports.blocks import ABSENT, Cell, Column, Table
from dlperf_sdk.reports.labels import batch_size, title
from dlperf_sdk.reports.numbers import Scale, common_scale, format_count
from dlperf_sdk.results.result import Result
from dlperf_sdk.results.trace_summary import TraceSummary

TITLE = "What the profiler shows"
EXPLANATION = (
    "From a traced attempt, which is part of no metric. Profiling takes time itself, so a step may take longer here "
    "than in the measured window; with one attempt, there is no interval. Busy, idle and communication are unions over "
    "all threads or streams. Self times are sums over them, without operators inside, and may exceed the window."
)
MOST_RESULTS = 4
"""Maximum number of results side by side."""
_OPERATORS = 10
"""Number of operators per result."""
_TIMES = (
    ("window", "window"),
    ("busy", "device busy"),
    ("idle", "device idle"),
    ("communication", "communication"),
    ("exposed_communication", "… not overlapped by work"),
)
"""Field of a summary, and its name in the table."""


def tables(results: Iterable[Result]) -> list[Table]:
    """Return a table of times and, if a trace has operators, a table of operators, of the results that have traces.

    The tables show the results side by side. Of each result, the trainer with the lowest rank is shown. Operators of
    two results are matched by their names. The list is empty if no result has a trace, or if more than `MOST_RESULTS`
    (4) have one.
    """
    traced = [result for result in results if result.traces]
    if not 1 <= len(traced) <= MOST_RESULTS:
        return []
    summaries = [result.traces[0] for result in traced]
    names = [f"{title(result)} · {batch_size(result.spec)} per device" for result in traced]
    names = [
        f"{name}, rank {summary.rank} of {format_count(len(result.traces), 'trace')}, {summary.steps} steps"
        for name, summary, result in zip(names, summaries, traced, strict=True)
    ]
    if len(traced) == 1:
        marks, heading = [""], f": {names[0]}"
    else:
        marks = [chr(ord("A") + i) for i in range(len(traced))]
        heading = ": " + "; ".join(f"{mark} is {name}" for mark, name in zip(marks, names, strict=True))
    parts = [_times(summaries, marks, heading)]
    if any(summary.operators for summary in summaries):
        parts.append(_operators(summaries, marks))
    return parts


def _times(summaries: Sequence[TraceSummary], marks: Sequence[str], heading: str) -> Table:
    rows = {name: [_time(summary, field) for summary in summaries] for field, name in _TIMES}
    steps = [summary.steps for summary in summaries]
    return _table("time", rows, marks, steps, "of the window", f"Time per step{heading}")


def _time(summary: TraceSummary, field: str) -> tuple[float, float] | None:
    """Return a field of a summary per step, and the whole window; None if the field is unknown."""
    seconds: float | None = getattr(summary, field)
    return None if seconds is None else (seconds / summary.steps, summary.window)


def _operators(summaries: Sequence[TraceSummary], marks: Sequence[str]) -> Table:
    operators = [{operator.name: operator for operator in summary.operators} for summary in summaries]
    leading = [[operator.name for operator in summary.operators[:_OPERATORS]] for summary in summaries]
    rows = {
        name: [
            None if name not in known else (known[name].seconds / summary.steps, summary.work)
            for known, summary in zip(operators, summaries, strict=True)
        ]
        for name in sorted({name for names in leading for name in names})
    }
    ordered = dict(sorted(rows.items(), key=lambda row: -max(time[0] for time in row[1] if time)))
    steps = [summary.steps for summary in summaries]
    return _table("operator", ordered, marks, steps, "of all work", "Operators by self time per step")


def _table(
    key: str,
    rows: Mapping[str, Sequence[tuple[float, float] | None]],
    marks: Sequence[str],
    steps: Sequence[int],
    share: str,
    heading: str,
) -> Table:
    """Return a table with two columns per result, and the ratio of both times if there are two results."""
    scale = common_scale([time[0] for times in rows.values() for time in times if time], "s")
    columns = [Column(key, key=True)]
    for mark in marks:
        prefix = f"{mark}, " if mark else ""
        columns += [
            Column(f"{prefix}{scale.unit}", right=True),
            Column(f"{mark} {share}".strip(), right=True),
        ]
    if len(marks) == 2:
        columns.append(Column("B ÷ A", right=True))
    table_rows = []
    for name, times in rows.items():
        cells: list[Cell | str] = [name]
        for time, count in zip(times, steps, strict=True):
            cells += _time_cells(time, count, scale)
        if len(marks) == 2:
            first, second = times
            ratio = f"{second[0] / first[0]:.2f}" if first and second and first[0] > 0 else ABSENT
            cells.append(ratio)
        table_rows.append(tuple(cells))
    return Table(tuple(columns), tuple(table_rows), heading)


def _time_cells(time: tuple[float, float] | None, steps: int, scale: Scale) -> tuple[Cell | str, Cell | str]:
    """Return the cells of a time per step, and of its share of a total over all steps; dashes without a time."""
    if time is None:
        return ABSENT, ABSENT
    seconds, total = time
    return scale(seconds), f"{seconds * steps / total:.1%}" if total > 0 else ABSENT
