"""Plots of one number per case with its interval, in several facets if there are many cases; and distributions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from attrs import evolve, frozen

from dlperf_sdk.reports.blocks import Column, Table, interval_cell
from dlperf_sdk.reports.html import case_charts
from dlperf_sdk.reports.html.page import Plot
from dlperf_sdk.reports.numbers import Scale, common_scale
from dlperf_sdk.results.metrics import percentile

MAX_VALUES = 36
"""Maximum number of rows in a plot."""
_PERCENTS = (1, 25, 50, 75, 99)


@frozen
class Value:
    """Number of one case in a plot."""

    label: str
    """Name of the case."""
    facet: str
    """Title of the plot that has the value, if one plot cannot hold all values."""
    series: str
    """Series of the value, which sets its color."""
    value: float
    """The number, in the unit of the plots."""
    low: float | None = None
    """Lower end of the interval; None without one."""
    high: float | None = None
    """Upper end of the interval; None without one."""


def plots(values: Sequence[Value], name: str, unit: str, title: str, at_most: int) -> list[Plot]:
    """Return plots of a number per case, with the largest value first in each.

    Up to `MAX_VALUES` (36) values are one plot. More values are divided by their `facet`, with a plot for each facet. A
    facet with more than `MAX_VALUES` values has several plots. Values that are alone in their facet share one plot.

    Args:
        values: The values, at least one.
        name: Name of the quantity, for the axis.
        unit: Unit of the values, without a prefix such as `G`.
        title: Title of the plots; facet and page are appended.
        at_most: Maximum number of plots. The values that do not fit into them are not plotted.

    Raises:
        ValueError: There is no value.
    """
    if len(values) <= MAX_VALUES:
        return [_plot(values, name, unit, title)]
    facets: dict[str, list[Value]] = {}
    for value in values:
        facets.setdefault(value.facet, []).append(value)
    alone = [members[0] for members in facets.values() if len(members) == 1]
    facets = {facet: members for facet, members in facets.items() if len(members) > 1}
    if alone:
        facets["others"] = alone
    pages = []
    for facet, members in facets.items():
        labeled = members if facet == "others" else map(_without_facet, members)
        ordered = sorted(labeled, key=lambda value: -value.value)
        starts = range(0, len(ordered), MAX_VALUES)
        for number, start in enumerate(starts, 1):
            page = f", {number} of {len(starts)}" if len(starts) > 1 else ""
            pages.append((ordered[start : start + MAX_VALUES], f"{title}, {facet}{page}"))
    return [_plot(members, name, unit, page_title) for members, page_title in pages[:at_most]]


def _without_facet(value: Value) -> Value:
    """Return a value whose label lacks the words of its facet, which are in the title of the plot."""
    words = [word for word in value.label.split() if word not in value.facet.split()]
    return evolve(value, label=" ".join(words) or value.label)


def _plot(values: Sequence[Value], name: str, unit: str, title: str) -> Plot:
    """Return a plot of the values, the largest first."""
    scale = common_scale([value.value for value in values], unit)
    axis = f"{name}, {scale.unit}" if scale.unit else name
    ordered = sorted(values, key=lambda value: -value.value)

    def format_with_unit(value: float) -> str:
        return f"{scale.format_alone(value)} {scale.unit}".rstrip()

    columns = (Column("case"), Column(axis, right=True), Column("95 % interval", right=True))
    write = scale.format_interval_alone
    cells = [
        (value.label, scale.format_alone(value.value), interval_cell(value.low, value.high, write))
        for value in ordered
    ]
    first, last = ordered[0], ordered[-1]
    text = f"The highest is {first.label} with {format_with_unit(first.value)}"
    if len(ordered) > 1:
        text += f", the lowest {last.label} with {format_with_unit(last.value)}"
    bare = sum(value.low is None for value in values)
    if bare:
        count = "None of them has an" if bare == len(values) else f"{bare} of {len(values)} have no"
        text += f". {count} interval: it takes six repeats"
    rows = [_row(value, scale) for value in ordered]
    return Plot(title, f"{text}.", partial(case_charts.dots, rows, axis), Table(columns, tuple(cells)))


def distributions(groups: dict[str, list[float]], scale: Scale, axis: str, title: str) -> Plot:
    """Return a plot with a box per group of step values, in the order of the groups.

    If there are more than `MAX_VALUES` (36) groups, only the `MAX_VALUES` groups with most values are drawn, in
    descending order of their numbers of values.

    Args:
        groups: Name of each group → its values, one per step, at least one; in the scale's original unit, such as s.
        scale: Scale that converts the values to the unit of the axis, such as ms, and formats them.
        axis: Title of the axis.
        title: Title of the plot.
    """
    largest = sorted(groups.items(), key=lambda group: -len(group[1]))
    largest_groups, left = largest[:MAX_VALUES], len(largest) - MAX_VALUES
    if len(groups) <= MAX_VALUES:
        largest_groups = list(groups.items())
    rows, cells = [], []
    for label, values in largest_groups:
        points = [percentile(values, percent) for percent in _PERCENTS]
        rows.append(
            {
                "label": label,
                **{
                    f"p{percent}": value / scale.divisor
                    for percent, value in zip(_PERCENTS, points, strict=True)
                },
                "shown": " / ".join(map(scale, points)),
            }
        )
        cells.append((label, f"{len(values):,}", *map(scale, points)))
    heads = ("steps", *("median" if percent == 50 else f"{percent} %" for percent in _PERCENTS))
    columns = (Column("case"), *(Column(head, right=True) for head in heads))
    text = (
        "The line goes from the 1st to the 99th percentile, the box holds the middle half, the mark is the median; "
        f"in {scale.unit or 'no unit'}."
    )
    if left > 0:
        text += f" {left:,} more with fewer steps are not drawn."
    return Plot(title, text, partial(case_charts.boxes, rows, axis), Table(columns, tuple(cells)))


def _row(value: Value, scale: Scale) -> dict[str, object]:
    row: dict[str, object] = {
        "label": value.label,
        "series": value.series,
        "value": value.value / scale.divisor,
        "shown": f"{scale.format_alone(value.value)} {scale.unit}".rstrip(),
    }
    if value.low is not None and value.high is not None:
        row |= {"low": value.low / scale.divisor, "high": value.high / scale.divisor}
        row["interval"] = scale.format_interval_alone(value.low, value.high)
    return row
