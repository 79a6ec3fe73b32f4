"""The plot of a history: a point per run, a line per level, a dashed line at each change."""

from __future__ import annotations

from typing import Any

from dlperf_sdk.reports.html.chart_parts import HEIGHT, Rows, finished_chart, tooltip_of
from dlperf_sdk.reports.html.palette import COLORS

_LEVEL_COLOR = COLORS[1]


def history(rows: Rows, y_title: str, x_title: str, *, over_time: bool) -> dict[str, Any]:
    """Return the Vega-Lite document of a history: throughput over time or over the order of runs.

    The rows are not changed.

    Args:
        rows: A row per valid run, in order. A row has `at` (the start in UTC as text, or the position of the run,
            counted from 1), `value` (the throughput), `level` (the throughput of the run's level) and `segment` (the
            number of that level). `size` (the throughput with its unit), `place` (the start, version or label), `run`
            (the name of the run) and `differs` (its versions and labels) are texts for the tooltip.
        y_title: Title of the vertical axis.
        x_title: Name of the order of the runs, for the horizontal axis; not used with `over_time`.
        over_time: True if `at` is a time.

    Raises:
        ModuleNotFoundError: The extra `report` is not installed.
        ValueError: There is no row.
    """
    import altair as alt

    values = [row["value"] for row in rows]
    margin = max((max(values) - min(values)) * 0.1, 0.02 * max(values))
    domain = [max(0.0, min(values) - margin), max(values) + margin]
    y_scale = alt.Scale(domain=domain, nice=False, zero=False)
    if over_time:
        x = alt.X(
            "at:T",
            title=None,
            scale=alt.Scale(type="utc"),
            axis=alt.Axis(format="%Y-%m-%d", labelOverlap=True, grid=False, tickCount=8),
        )
    else:
        x = alt.X(
            "at:Q",
            title=f"run, in the order of {x_title}",
            axis=alt.Axis(format="d", tickMinStep=1, grid=False),
        )
    base = alt.Chart().encode(x=x)
    y = alt.Y("value:Q", title=y_title, scale=y_scale, axis=alt.Axis(tickCount=5))
    point = base.mark_point(filled=True, size=40, opacity=0.8, color=COLORS[0]).encode(
        y=y, tooltip=tooltip_of(rows, place="at", size="throughput", differs="versions and labels", run="run")
    )
    level = base.mark_line(strokeWidth=3, color=_LEVEL_COLOR).encode(y=alt.Y("level:Q"), detail="segment:N")
    starts = base.transform_filter("datum.starts").mark_rule(
        strokeDash=[4, 4], opacity=0.7, color=_LEVEL_COLOR
    )
    marked = [
        {**row, "starts": True}
        if previous is not None and row["segment"] != previous["segment"]
        else dict(row)
        for row, previous in zip(rows, [None, *rows], strict=False)
    ]
    changes = [starts] if any("starts" in row for row in marked) else []
    return finished_chart([*changes, level, point], HEIGHT, marked)
