"""Plots of lines over devices or another size: rows of values → Vega-Lite, through Altair.

Without the extra `report`, the functions raise a `ModuleNotFoundError`.
"""

from __future__ import annotations

import math
from typing import Any

from dlperf_sdk.reports.html.chart_parts import (
    HEIGHT,
    Rows,
    color_of,
    devices_axis,
    finished_chart,
    forecast_layers,
    have_intervals,
    lines_of,
    sizes_axis,
)


def scaling(rows: Rows, unit: str) -> dict[str, Any]:
    """Return the Vega-Lite document of throughput over devices, both logarithmic. Thin lines are perfect scaling.

    Args:
        rows: Rows with `series` (the name of the series), `devices` (a number), `topology` (a text), `value` (the
            throughput), and `line`, which is True where the line goes through the point. A row may have the interval
            as `low` and `high`, and the throughput of perfect scaling as `ideal`. A row of a prediction has
            `forecast_low` and `forecast_high` instead of `value`, and `forecast` if there is a point forecast. `shown`
            and `interval` are texts for the tooltip.
        unit: Unit of the throughputs, for the title of the axis.

    Raises:
        IndexError: There is no row.
    """
    import altair as alt

    base = alt.Chart().encode(x=devices_axis(rows))
    names = ("value", "ideal", "low", "high", "forecast_low", "forecast_high")
    values = [row[name] for row in rows for name in names if name in row]
    domain = [min(values) * 0.85, max(values) * 1.15]
    # Large numbers are written as 20k; small ones without a prefix.
    axis = alt.Axis(format="~s" if domain[1] > 5000 else ",~g", values=_round_numbers(*domain))
    y = alt.Y(
        "value:Q",
        title=f"throughput, {unit} (log scale)",
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=axis,
    )
    ideal = (
        base.transform_filter("datum.line && isValid(datum.ideal)")
        .mark_line(opacity=0.5, strokeWidth=1)
        .encode(y=alt.Y("ideal:Q"), color=color_of(rows))
    )
    layers = [ideal, *forecast_layers(base, rows), *lines_of(base, y, rows)]
    if have_intervals(rows):
        bar = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=5, opacity=0.45)
        layers.append(bar.encode(y=alt.Y("low:Q"), y2="high:Q", color=color_of(rows)))
    return finished_chart(layers, HEIGHT, rows)


def efficiency(rows: Rows) -> dict[str, Any]:
    """Return the Vega-Lite document of scaling efficiency over devices, with a thin line at 100 %.

    Args:
        rows: Rows with `series` (the name of the series), `devices` (a number), `topology` (a text), `value` (the
            efficiency in percent), and `line`, which is True where the line goes through the point. `shown` and
            `interval` are texts for the tooltip, of which a row may lack either.

    Raises:
        IndexError: There is no row.
    """
    import altair as alt

    base = alt.Chart().encode(x=devices_axis(rows))
    top = max(110.0, *(1.05 * row["value"] for row in rows))
    scale = alt.Scale(domain=[0, top], nice=False)
    y = alt.Y("value:Q", title="efficiency, %", scale=scale, axis=alt.Axis(tickCount=5))
    ideal = alt.Chart().mark_rule(opacity=0.6).encode(y=alt.YDatum(100))
    return finished_chart([ideal, *lines_of(base, y, rows)], HEIGHT, rows)


def speedup(rows: Rows) -> dict[str, Any]:
    """Return the Vega-Lite document of speedup over devices, both logarithmic. A thin line is perfect scaling.

    Args:
        rows: Rows with `series` (the name of the series), `devices` (a number), `topology` (a text), `value` (the
            speedup), and `line`, which is True where the line goes through the point. `shown` and `interval` are texts
            for the tooltip, of which a row may lack either.

    Raises:
        IndexError: There is no row.
    """
    import altair as alt

    base = alt.Chart().encode(x=devices_axis(rows))
    counts = sorted({row["devices"] for row in rows})
    top = max(*(row["value"] for row in rows), counts[-1])
    domain = [min(1.0, *(row["value"] for row in rows)) * 0.92, top * 1.08]
    y = alt.Y(
        "value:Q",
        title="speedup (log scale)",
        scale=alt.Scale(type="log", base=2, domain=domain, nice=False),
        axis=alt.Axis(values=counts, format="d", labelOverlap=True),
    )
    ideal = alt.Chart().mark_line(opacity=0.6, color="black", strokeWidth=1)
    ideal = ideal.encode(x=devices_axis(rows), y=alt.Y("devices:Q"))
    return finished_chart([ideal, *lines_of(base, y, rows)], HEIGHT, rows)


def curves(rows: Rows, x_title: str, y_title: str) -> dict[str, Any]:
    """Return the Vega-Lite document of a line per series over a size on a logarithmic axis.

    Args:
        rows: Rows with `series` (the name of the series), `at` (the size, a positive number), `value` (the quantity
            on the vertical axis) and `line` (True where the line goes through the point). A row may have the interval
            as `low` and `high`. `shown` and `interval` are texts for the tooltip.
        x_title: Title of the horizontal axis.
        y_title: Title of the vertical axis.

    Raises:
        IndexError: There is no row.
    """
    import altair as alt

    base = alt.Chart().encode(x=sizes_axis(rows, "at", x_title))
    scale = alt.Scale(zero=True, nice=True)
    y = alt.Y("value:Q", title=y_title, scale=scale, axis=alt.Axis(tickCount=5))
    layers = lines_of(base, y, rows)
    if have_intervals(rows):
        bar = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=5, opacity=0.45)
        layers.append(bar.encode(y=alt.Y("low:Q"), y2="high:Q", color=color_of(rows)))
    return finished_chart(layers, HEIGHT, rows)


def _round_numbers(low: float, high: float) -> list[float]:
    """Return 1, 2 and 5 times powers of ten between two bounds; of wide ranges the powers only."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high / low < 500 else (1,)
    return [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
