"""Numbers → Vega-Lite, through Altair: pure functions from rows to a plot's specification.

Colours are such that one set stands out on light and dark paper alike; everything else of the look (letters,
axes, grid) is the page's style sheet's. Rows hold bare values, so nothing that is said in a result is ever an
expression.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from dlperf_sdk.reports.html.embed import text

if TYPE_CHECKING:
    import altair

COLOURS = (
    "#3178c6",
    "#c9660a",
    "#2b8a3e",
    "#8e5bd0",
    "#d1383d",
    "#0e8fa3",
    "#c2418f",
    "#8a6d4b",
    "#6b7785",
    "#7a8c12",
)
"""Each at least 3:1 against the page's light and its dark background (WCAG 2.2, 1.4.11)."""
_SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)
_PATHS = {
    "circle": "M6 1a5 5 0 1 1 0 10a5 5 0 1 1 0 -10Z",
    "square": "M1.5 1.5h9v9h-9Z",
    "triangle-up": "M6 1L11 10.5H1Z",
    "diamond": "M6 0.5L10.5 6L6 11.5L1.5 6Z",
    "cross": "M4 1h4v3h3v4h-3v3h-4v-3h-3v-4h3Z",
    "triangle-down": "M6 11L1 1.5H11Z",
    "triangle-right": "M11 6L1.5 11V1Z",
    "triangle-left": "M1 6L10.5 1V11Z",
}
"""Symbols of the legend, in a square of 12 units."""
_HEIGHT = 300
_STEP = 30
"""Pixels of a row."""

MOST_SERIES = len(COLOURS)
"""Lines of a plot."""

Rows = Sequence[Mapping[str, Any]]


@frozen
class LegendEntry:
    """A series with its colour and the path of its symbol."""

    name: str
    colour: str
    path: str


def legend(spec: Mapping[str, Any]) -> list[LegendEntry]:
    """Return the legend of a plot; none if it has one series."""
    names = _names([row for row in spec["data"]["values"] if "series" in row])
    if len(names) < 2:
        return []
    return [
        LegendEntry(name, COLOURS[at % len(COLOURS)], _PATHS[_SHAPES[at % len(_SHAPES)]])
        for at, name in enumerate(names)
    ]


def scaling(rows: Rows, unit: str) -> dict[str, Any]:
    """Throughput over devices, both logarithmic, a line per series, and dashed what perfect scaling would be.

    Rows have `series`, `devices`, `topology`, `value`, and `line` where the line goes through them; they may have
    `low`, `high` and `ideal`.
    """
    import altair as alt

    base = alt.Chart().encode(x=_devices(rows))
    values = [row[name] for row in rows for name in ("value", "ideal", "low", "high") if name in row]
    domain = [min(values) * 0.85, max(values) * 1.15]
    # 20k where numbers are large; small ones are not written as thousandths.
    axis = alt.Axis(format="~s" if domain[1] > 5000 else ",~g", values=_round_numbers(*domain))
    y = alt.Y(
        "value:Q",
        title=f"throughput, {unit}",
        scale=alt.Scale(type="log", domain=domain, nice=False),
        axis=axis,
    )
    ideal = (
        base.transform_filter("datum.line && isValid(datum.ideal)")
        .mark_line(strokeDash=[4, 4], opacity=0.6, strokeWidth=1.5)
        .encode(y=alt.Y("ideal:Q"), color=_colour(rows))
    )
    layers = [ideal, *_lines(base, y, rows)]
    if _have_intervals(rows):
        bar = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=5, opacity=0.45)
        layers.append(bar.encode(y=alt.Y("low:Q"), y2="high:Q", color=_colour(rows)))
    return _finished(layers, _HEIGHT, rows)


def efficiency(rows: Rows) -> dict[str, Any]:
    """Percent of perfect scaling over devices. Rows are those of `scaling`."""
    import altair as alt

    base = alt.Chart().encode(x=_devices(rows))
    top = max(110.0, *(1.05 * row["value"] for row in rows))
    scale = alt.Scale(domain=[0, top], nice=False)
    y = alt.Y("value:Q", title="efficiency, %", scale=scale, axis=alt.Axis(tickCount=5))
    ideal = alt.Chart().mark_rule(strokeDash=[4, 4], opacity=0.6).encode(y=alt.YDatum(100))
    return _finished([ideal, *_lines(base, y, rows)], _HEIGHT, rows)


def speedup(rows: Rows) -> dict[str, Any]:
    """Return the speedup over one device against devices, both logarithmic, beside perfect scaling.

    Rows are those of `scaling`.
    """
    import altair as alt

    base = alt.Chart().encode(x=_devices(rows))
    counts = sorted({row["devices"] for row in rows})
    top = max(*(row["value"] for row in rows), counts[-1])
    domain = [min(1.0, *(row["value"] for row in rows)) * 0.92, top * 1.08]
    y = alt.Y(
        "value:Q",
        title="speedup",
        scale=alt.Scale(type="log", base=2, domain=domain, nice=False),
        axis=alt.Axis(values=counts, format="d", labelOverlap=True),
    )
    ideal = alt.Chart().mark_line(strokeDash=[4, 4], opacity=0.6, color="black", strokeWidth=1.5)
    ideal = ideal.encode(x=_devices(rows), y=alt.Y("devices:Q"))
    return _finished([ideal, *_lines(base, y, rows)], _HEIGHT, rows)


def curves(rows: Rows, x_title: str, y_title: str) -> dict[str, Any]:
    """Return a line per series over a size, on a logarithmic axis with a tick at each measured size.

    Rows have `series`, `at`, `value` and `line`, and may have `low` and `high`.
    """
    import altair as alt

    base = alt.Chart().encode(x=_sizes(rows, "at", x_title))
    scale = alt.Scale(zero=True, nice=True)
    y = alt.Y("value:Q", title=y_title, scale=scale, axis=alt.Axis(tickCount=5))
    layers = _lines(base, y, rows)
    if _have_intervals(rows):
        bar = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=5, opacity=0.45)
        layers.append(bar.encode(y=alt.Y("low:Q"), y2="high:Q", color=_colour(rows)))
    return _finished(layers, _HEIGHT, rows)


def dots(rows: Rows, title: str) -> dict[str, Any]:
    """A dot per row from zero on, with its interval where it has one.

    Rows have `label`, `series` and `value`, and may have `low` and `high`.
    """
    import altair as alt

    base = alt.Chart().encode(y=_label(rows))
    x = alt.X("value:Q", title=title, scale=alt.Scale(zero=True, nice=True), axis=alt.Axis(tickCount=8))
    stem = base.mark_rule(opacity=0.35).encode(x=alt.X("zero:Q"), x2="value:Q", color=_colour(rows))
    stem = stem.transform_calculate(zero="0")
    dot = base.mark_point(filled=True, size=90, opacity=1).encode(
        x=x,
        color=_colour(rows),
        shape=_shape(rows),
        tooltip=_tooltip(rows, label="case", shown="value", interval="interval"),
    )
    interval = _interval(base, rows, _colour(rows))
    return _finished([stem, *interval, dot], _height(rows), rows)


def boxes(rows: Rows, title: str) -> dict[str, Any]:
    """Distributions: a line from `p1` to `p99`, a box of the middle half, a tick at the median.

    Rows have `label`, `p1`, `p25`, `p50`, `p75` and `p99`.
    """
    import altair as alt

    base = alt.Chart().encode(y=_label(rows))
    colour = alt.value(COLOURS[0])
    whisker = base.mark_rule(strokeWidth=1.5).encode(
        x=alt.X("p1:Q", title=title, scale=alt.Scale(zero=True, nice=True), axis=alt.Axis(tickCount=8)),
        x2="p99:Q",
        color=colour,
    )
    box = base.mark_bar(size=14, opacity=0.6).encode(
        x=alt.X("p25:Q"), x2="p75:Q", color=colour, tooltip=_tooltip(rows, label="case", shown="times")
    )
    tick = base.mark_tick(size=18, thickness=3, opacity=1).encode(
        x=alt.X("p50:Q"), color=alt.value(COLOURS[1])
    )
    return _finished([whisker, box, tick], _height(rows), rows)


def ratios(rows: Rows, summaries: Rows) -> dict[str, Any]:
    """Paired ratios of throughputs, logarithmic: a ring per pair, and a diamond for their median.

    Rows have `label` and `ratio`; summaries `label` and `value`, and may have `low` and `high`.
    """
    import altair as alt

    values = [
        row[name]
        for row in (*rows, *summaries)
        for name in ("ratio", "value", "low", "high")
        if row.get(name)
    ]
    reach = max(1.1, *(max(value, 1 / value) for value in values)) * 1.03
    scale = alt.Scale(type="log", domain=[1 / reach, reach], nice=False)
    x = alt.X("ratio:Q", title="ratio of throughputs", scale=scale, axis=alt.Axis(format=".3~g", tickCount=8))
    one = alt.Chart().mark_rule(strokeDash=[4, 4], opacity=0.7).encode(x=alt.XDatum(1))
    pairs = (
        alt.Chart()
        .transform_filter("isValid(datum.ratio)")
        .mark_point(size=55, opacity=0.75, strokeWidth=1.5)
    )
    pairs = pairs.encode(
        x=x,
        y=_label(summaries),
        color=alt.value(COLOURS[0]),
        tooltip=_tooltip(rows, label="effect", held="pair", shown="ratio"),
    )
    base = alt.Chart().transform_filter("isValid(datum.value)").encode(y=_label(summaries))
    interval = _interval(base, summaries, alt.value(COLOURS[1]))
    middle = base.mark_point(filled=True, shape="diamond", size=150, opacity=1).encode(
        x=alt.X("value:Q"),
        color=alt.value(COLOURS[1]),
        tooltip=_tooltip(summaries, label="effect", shown="median", interval="interval"),
    )
    return _finished([one, pairs, *interval, middle], _height(summaries), [*rows, *summaries])


# -- parts


def _lines(base: altair.Chart, y: altair.Y, rows: Rows) -> list[altair.Chart]:
    line = base.transform_filter("datum.line").mark_line(strokeWidth=2).encode(y=y, color=_colour(rows))
    point = base.mark_point(filled=True, size=70, opacity=1).encode(
        y=y,
        color=_colour(rows),
        shape=_shape(rows),
        tooltip=_tooltip(
            rows, series="series", topology="topology", at="size", shown="value", interval="interval"
        ),
    )
    return [line, point]


def _interval(base: altair.Chart, rows: Rows, colour: Any) -> list[altair.Chart]:
    """Pale bars from `low` to `high`; none where no row has them."""
    import altair as alt

    if not _have_intervals(rows):
        return []
    bar = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=5, opacity=0.45)
    return [bar.encode(x=alt.X("low:Q"), x2="high:Q", color=colour)]


def _have_intervals(rows: Rows) -> bool:
    return any("low" in row for row in rows)


def _devices(rows: Rows) -> altair.X:
    return _sizes(rows, "devices", "devices")


def _sizes(rows: Rows, field: str, title: str) -> altair.X:
    import altair as alt

    ticks = sorted({row[field] for row in rows})
    axis = alt.Axis(values=ticks, format="d", labelOverlap=True)
    domain = [ticks[0] * 0.92, ticks[-1] * 1.08]
    return alt.X(
        f"{field}:Q",
        title=title,
        axis=axis,
        scale=alt.Scale(type="log", base=2, domain=domain, nice=False),
    )


def _round_numbers(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between two bounds; of wide ranges the powers only."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high / low < 500 else (1,)
    return [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]


def _label(rows: Rows) -> altair.Y:
    import altair as alt

    # In the order of the rows, once each.
    order = list(dict.fromkeys(text(row["label"]) for row in rows))
    return alt.Y("label:N", title=None, sort=order, axis=alt.Axis(labelLimit=260, domain=False, ticks=False))


def _names(rows: Rows) -> list[str]:
    return list(dict.fromkeys(text(row["series"]) for row in rows))


def _colour(rows: Rows) -> altair.Color:
    import altair as alt

    names = _names(rows)
    scale = alt.Scale(domain=names, range=[COLOURS[i % len(COLOURS)] for i in range(len(names))])
    return alt.Color("series:N", scale=scale, legend=None)


def _shape(rows: Rows) -> altair.Shape:
    import altair as alt

    names = _names(rows)
    scale = alt.Scale(domain=names, range=[_SHAPES[i % len(_SHAPES)] for i in range(len(names))])
    return alt.Shape("series:N", scale=scale, legend=None)


def _tooltip(rows: Rows, **named: str) -> list[altair.Tooltip]:
    """The fields that the rows have, under what they are called."""
    import altair as alt

    return [
        alt.Tooltip(f"{field}:N", title=title)
        for field, title in named.items()
        if any(field in row for row in rows)
    ]


def _height(rows: Rows) -> int:
    return _STEP * len({text(row["label"]) for row in rows})


def _finished(layers: Sequence[altair.Chart], height: int, rows: Rows) -> dict[str, Any]:
    """As wide as the page lets it be, and with nothing of its own but the marks."""
    import altair as alt

    fitted = alt.AutoSizeParams(type="fit-x", contains="padding")
    sized = alt.layer(*layers).properties(
        width="container", height=height, autosize=fitted, background="transparent"
    )
    whole = sized.configure(
        aria=False,
        # A label stands below its tick, also at an end, and what is too near to another is left out.
        axis=alt.AxisConfig(
            labelFlush=False, labelFontSize=12, labelSeparation=6, titleFontSize=12, titlePadding=8
        ),
        font="system-ui, sans-serif",
        view=alt.ViewConfig(stroke=None),
    )
    # What comes out is of our own making, and a test checks it; checking every plot again takes most of the time.
    document: dict[str, Any] = whole.to_dict(validate=False)
    # Beside Altair, which would copy the rows for every layer; it gives a layer without any the name of none.
    for layer in document["layer"]:
        layer.pop("data", None)
    document["data"] = {"values": [_shown(row) for row in rows]}
    document.pop("$schema", None)
    document.pop("usermeta", None)
    return document


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: text(value) if isinstance(value, str) else value for name, value in row.items()}
