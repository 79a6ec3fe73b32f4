"""Plots with a line per case or effect: rows of values → Vega-Lite, through Altair.

Without the extra `report`, the functions raise a `ModuleNotFoundError`.
"""

from __future__ import annotations

from typing import Any

from dlperf_sdk.reports.html.chart_parts import (
    Rows,
    color_of,
    finished_chart,
    height_of,
    interval_bars,
    label_axis,
    shape_of,
    tooltip_of,
)
from dlperf_sdk.reports.html.palette import COLORS


def dots(rows: Rows, title: str) -> dict[str, Any]:
    """Return the Vega-Lite document of a plot with a dot per row, on an axis that starts at zero.

    Args:
        rows: A row per case, with `label` (the name of the case), `series` (which sets the color) and `value` (the
            number, in the unit of the axis). A row with an interval has its ends as `low` and `high`. `shown` and
            `interval` are texts for the tooltip. The plot has the labels in the order of the rows.
        title: Title of the axis.
    """
    import altair as alt

    base = alt.Chart().encode(y=label_axis(rows))
    x = alt.X("value:Q", title=title, scale=alt.Scale(zero=True, nice=True), axis=alt.Axis(tickCount=8))
    dot = base.mark_point(filled=True, size=90, opacity=1).encode(
        x=x,
        color=color_of(rows),
        shape=shape_of(rows),
        tooltip=tooltip_of(rows, label="case", shown="value", interval="interval"),
    )
    interval = interval_bars(base, rows, color_of(rows))
    return finished_chart([*interval, dot], height_of(rows), rows)


def boxes(rows: Rows, title: str) -> dict[str, Any]:
    """Return the Vega-Lite document of a plot with a box per row, on an axis that starts at zero.

    A line goes from the 1st to the 99th percentile, a box from the 25th to the 75th, and a mark is at the median.

    Args:
        rows: A row per distribution, with `label` (its name) and the percentiles `p1`, `p25`, `p50`, `p75` and `p99`,
            in the unit of the axis; `shown` is a text for the tooltip. The plot has the labels in the order of the
            rows.
        title: Title of the axis.
    """
    import altair as alt

    base = alt.Chart().encode(y=label_axis(rows))
    color = alt.value(COLORS[0])
    whisker = base.mark_rule(strokeWidth=1.5).encode(
        x=alt.X("p1:Q", title=title, scale=alt.Scale(zero=True, nice=True), axis=alt.Axis(tickCount=8)),
        x2="p99:Q",
        color=color,
    )
    box = base.mark_bar(size=14, opacity=0.6).encode(
        x=alt.X("p25:Q"), x2="p75:Q", color=color, tooltip=tooltip_of(rows, label="case", shown="times")
    )
    tick = base.mark_tick(size=18, thickness=3, opacity=1).encode(
        x=alt.X("p50:Q"), color=alt.value(COLORS[1])
    )
    return finished_chart([whisker, box, tick], height_of(rows), rows)


_RATIO_TICKS = (
    (0.7, 0.8, 0.85, 0.9, 0.95, 1, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4),
    (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.4, 1.7, 2, 2.5, 3, 4, 5),
    (0.001, 0.01, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 100, 1000),
)
"""Ticks of narrow, wider and wide axes of ratios."""


def ratios(rows: Rows, summaries: Rows) -> dict[str, Any]:
    """Return the Vega-Lite document of paired ratios of throughputs on a logarithmic axis, a line per effect.

    A ring stands for each pair, a diamond for the median of the pairs.

    Args:
        rows: A row per pair with `label` (the name of its effect) and `ratio`. For the tooltip: `held`, the settings
            that both cases of the pair share, and `shown`, the ratio as text.
        summaries: A row per effect with `label` (its name) and `value` (the median), and, with an interval, `low` and
            `high`. For the tooltip: `shown` and `interval`, the median and its interval as text. The plot has the
            effects in this order.
    """
    import altair as alt

    values = [
        row[name]
        for row in (*rows, *summaries)
        for name in ("ratio", "value", "low", "high")
        if row.get(name)
    ]
    low, high = min(0.95, *values) / 1.03, max(1.05, *values) * 1.03
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    ticks = [
        tick
        for tick in _RATIO_TICKS[0 if high / low < 1.5 else 1 if high / low < 6 else 2]
        if low <= tick <= high
    ]
    axis = alt.Axis(format=".3~g", values=ticks, labelOverlap=True)
    x = alt.X("ratio:Q", title="ratio of throughputs (log scale)", scale=scale, axis=axis)
    reference_line = alt.Chart().mark_rule(strokeDash=[4, 4], opacity=0.7).encode(x=alt.XDatum(1))
    pairs = (
        alt.Chart()
        .transform_filter("isValid(datum.ratio)")
        .mark_point(size=55, opacity=0.75, strokeWidth=1.5)
    )
    pairs = pairs.encode(
        x=x,
        y=label_axis(summaries),
        color=alt.value(COLORS[0]),
        tooltip=tooltip_of(rows, label="effect", held="pair", shown="ratio"),
    )
    base = alt.Chart().transform_filter("isValid(datum.value)").encode(y=label_axis(summaries))
    interval = interval_bars(base, summaries, alt.value(COLORS[1]))
    middle = base.mark_point(filled=True, shape="diamond", size=150, opacity=1).encode(
        x=alt.X("value:Q"),
        color=alt.value(COLORS[1]),
        tooltip=tooltip_of(summaries, label="effect", shown="median", interval="interval"),
    )
    return finished_chart(
        [reference_line, pairs, *interval, middle], height_of(summaries), [*rows, *summaries]
    )
