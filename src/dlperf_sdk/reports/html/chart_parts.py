"""Parts of plots: layers, axes, tooltips, and the finished Vega-Lite document.

The page's palette determines the colors, symbols and dashes of series, its style sheet fonts, axes and grid. Rows
contain bare values, so no text of a result is ever evaluated as an expression. Without the extra `report`, functions
that return objects of Altair, and `finished_chart`, raise a `ModuleNotFoundError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dlperf_sdk.reports.html.embed import text
from dlperf_sdk.reports.html.palette import series_names

if TYPE_CHECKING:
    import altair

HEIGHT = 300
"""Height of a line plot in pixels."""
_STEP = 30
"""Height of a row in pixels."""

Rows = Sequence[Mapping[str, Any]]
"""Rows of a plot: name of a field → its value."""


def lines_of(base: altair.Chart, y: altair.Y, rows: Rows) -> list[altair.Chart]:
    """Return two layers: lines through the rows whose `line` is true, and a point for each row with a `value`.

    Args:
        base: Chart that encodes the horizontal axis.
        y: Encoding of the vertical axis.
        rows: All rows of the plot, from which the names of the series and the fields of tooltips are taken.
    """
    import altair as alt

    dash = alt.StrokeDash("series:N", scale=alt.Scale(domain=series_names(rows)), legend=None)
    line = base.transform_filter("datum.line").mark_line(strokeWidth=2)
    line = line.encode(y=y, color=color_of(rows), strokeDash=dash)
    point = base.transform_filter("isValid(datum.value)").mark_point(filled=True, size=70, opacity=1)
    point = point.encode(
        y=y,
        color=color_of(rows),
        shape=shape_of(rows),
        tooltip=tooltip_of(
            rows, series="series", topology="topology", at="size", shown="value", interval="interval"
        ),
    )
    return [line, point]


def forecast_layers(base: altair.Chart, rows: Rows) -> list[altair.Chart]:
    """Return the layers of predictions: pale bands that end in a bar, and dotted lines to point forecasts.

    Args:
        base: Chart that encodes the horizontal axis.
        rows: All rows of the plot. Those of predictions have the ends of the interval as `forecast_low` and
            `forecast_high`, and the point forecast, if there is one, as `forecast`.

    Returns:
        The layers, the lowest first; empty if no row is of a prediction.
    """
    import altair as alt

    if not any("forecast_low" in row for row in rows):
        return []
    tooltip = tooltip_of(rows, series="series", topology="topology", shown="value", interval="90 % interval")
    predicted = base.transform_filter("isValid(datum.forecast_low)")
    ends = {"y": alt.Y("forecast_low:Q"), "y2": "forecast_high:Q", "color": color_of(rows)}
    band = predicted.mark_area(opacity=0.18).encode(**ends)
    bar = predicted.transform_filter("isValid(datum.topology)").mark_rule(strokeWidth=5, opacity=0.3)
    layers = [band, bar.encode(**ends, tooltip=tooltip)]
    if any("forecast" in row for row in rows):
        forecast = base.transform_filter("isValid(datum.forecast)")
        line = forecast.mark_line(strokeDash=[2, 3], strokeWidth=2)
        point = forecast.transform_filter("isValid(datum.topology)").mark_point(filled=False, size=70)
        y = alt.Y("forecast:Q")
        layers += [
            line.encode(y=y, color=color_of(rows)),
            point.encode(y=y, color=color_of(rows), shape=shape_of(rows), tooltip=tooltip),
        ]
    return layers


def interval_bars(base: altair.Chart, rows: Rows, color: Any) -> list[altair.Chart]:
    """Return a layer of pale horizontal bars from `low` to `high` of each row; an empty list if no row has them.

    Args:
        base: Chart that encodes the vertical axis.
        rows: All rows of the plot.
        color: Encoding of the bars' color, such as that of `color_of`.
    """
    import altair as alt

    if not have_intervals(rows):
        return []
    bar = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=5, opacity=0.45)
    return [bar.encode(x=alt.X("low:Q"), x2="high:Q", color=color)]


def have_intervals(rows: Rows) -> bool:
    """Return True if any row has an interval, which means a field `low`."""
    return any("low" in row for row in rows)


def devices_axis(rows: Rows) -> altair.X:
    """Return a horizontal, logarithmic axis of the field `devices` of the rows.

    Raises:
        IndexError: There is no row.
    """
    return sizes_axis(rows, "devices", "devices")


def sizes_axis(rows: Rows, field: str, title: str) -> altair.X:
    """Return a horizontal, logarithmic axis with a tick at each distinct value of a field.

    Args:
        rows: Rows, all with the field.
        field: Name of the field, whose values are positive numbers.
        title: Title of the axis.

    Raises:
        IndexError: There is no row.
    """
    import altair as alt

    ticks = sorted({row[field] for row in rows})
    axis = alt.Axis(values=ticks, format="d", labelOverlap=True)
    domain = [ticks[0] * 0.92, ticks[-1] * 1.08]
    return alt.X(
        f"{field}:Q",
        title=f"{title} (log scale)",
        axis=axis,
        scale=alt.Scale(type="log", base=2, domain=domain, nice=False),
    )


def label_axis(rows: Rows) -> altair.Y:
    """Return a vertical axis of the field `label` of the rows, each label once, in the order of the rows."""
    import altair as alt

    # Each label once, in the order of the rows.
    order = list(dict.fromkeys(text(row["label"]) for row in rows))
    return alt.Y("label:N", title=None, sort=order, axis=alt.Axis(domain=False, ticks=False))


def color_of(rows: Rows) -> altair.Color:
    """Return the encoding of the color by the field `series` of the rows. The page's `Palette` sets the colors."""
    import altair as alt

    return alt.Color("series:N", scale=alt.Scale(domain=series_names(rows)), legend=None)


def shape_of(rows: Rows) -> altair.Shape:
    """Return the encoding of the symbol by the field `series` of the rows. The page's `Palette` sets the symbols."""
    import altair as alt

    return alt.Shape("series:N", scale=alt.Scale(domain=series_names(rows)), legend=None)


def tooltip_of(rows: Rows, **named: str) -> list[altair.Tooltip]:
    """Return tooltips for fields of the rows, in the order of the arguments; fields that no row has are left out.

    Args:
        rows: The rows.
        named: Name of a field → title in the tooltip.
    """
    import altair as alt

    return [
        alt.Tooltip(f"{field}:N", title=title)
        for field, title in named.items()
        if any(field in row for row in rows)
    ]


def height_of(rows: Rows) -> int:
    """Return the height in pixels of a plot with a horizontal band per distinct `label` of the rows."""
    return _STEP * len({text(row["label"]) for row in rows})


def finished_chart(layers: Sequence[altair.Chart], height: int, rows: Rows) -> dict[str, Any]:
    """Return layers as a Vega-Lite document that is as wide as the page.

    The document has the data once, for all layers, as `data.values`. Control characters in its texts are replaced, and
    texts of more than 300 characters are cut.

    Args:
        layers: The layers, the lowest first.
        height: Height in pixels.
        rows: The data of all layers.
    """
    import altair as alt

    fitted = alt.AutoSizeParams(type="fit-x", contains="padding")
    sized = alt.layer(*layers).properties(
        width="container", height=height, autosize=fitted, background="transparent"
    )
    chart = sized.configure(
        aria=False,
        # A label is centered below its tick, also at an end; labels that would overlap are left out.
        axis=alt.AxisConfig(
            labelFlush=False, labelFontSize=12, labelSeparation=6, titleFontSize=12, titlePadding=8
        ),
        axisY=alt.AxisConfig(labelPadding=8),
        padding={"left": 4, "right": 22, "top": 4, "bottom": 4},
        font="system-ui, sans-serif",
        view=alt.ViewConfig(stroke=None),
    )
    # A test checks the documents; validating every plot again would take most of the time.
    document: dict[str, Any] = chart.to_dict(validate=False)
    # Altair would copy the rows into every layer, so the data are added here.
    for layer in document["layer"]:
        layer.pop("data", None)
    document["data"] = {"values": [_visible_fields(row) for row in rows]}
    document.pop("$schema", None)
    document.pop("usermeta", None)
    return document


def _visible_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: text(value) if isinstance(value, str) else value for name, value in row.items()}
