"""One number per case as a plot: each with its interval, or, where there are too many to tell apart, by kind."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from dlperf_sdk.reports.blocks import Cell, Column, Table
from dlperf_sdk.reports.html import charts
from dlperf_sdk.reports.html.page import Plot
from dlperf_sdk.reports.numbers import Scale, common_scale
from dlperf_sdk.results.metrics import percentile

MOST = 36
"""Rows of a plot. More cannot be read."""
_PERCENTS = (1, 25, 50, 75, 99)


@frozen
class Value:
    """One case's number."""

    label: str
    kind: str
    """Label of the group that it belongs to, where there are too many values to show each."""
    series: str
    """Series of the value, which sets its colour."""
    value: float
    low: float | None = None
    high: float | None = None


def plot(values: Sequence[Value], name: str, unit: str, title: str) -> Plot:
    """The numbers, largest first: `name` says what they are, `title` what the plot is of. There must be some."""
    how = common_scale([item.value for item in values], unit)
    axis = f"{name}, {how.unit}" if how.unit else name
    if len(values) > MOST:
        kinds: dict[str, list[float]] = {}
        for item in values:
            kinds.setdefault(item.kind, []).append(item.value)
        return distributions(kinds, how, axis, title, "cases")
    ordered = sorted(values, key=lambda item: -item.value)

    def written(value: float) -> str:
        return f"{how.own(value)} {how.unit}".rstrip()

    rows = [_row(item, how) for item in ordered]
    columns = (Column("case"), Column(axis, right=True), Column("interval", right=True))
    cells = [(item.label, how.own(item.value), _interval(item, how)) for item in ordered]
    first, last = ordered[0], ordered[-1]
    text = f"The highest is {first.label} with {written(first.value)}"
    if len(ordered) > 1:
        text += f", the lowest {last.label} with {written(last.value)}"
    bare = sum(item.low is None for item in values)
    if bare:
        count = "None of them has" if bare == len(values) else f"{bare} of {len(values)} have no"
        text += f". {count} an interval" if bare == len(values) else f". {count} interval"
        text += ": it takes six repeats"
    return Plot(title, f"{text}.", charts.dots(rows, axis), Table(columns, tuple(cells)))


def distributions(groups: dict[str, list[float]], how: Scale, axis: str, title: str, counted_as: str) -> Plot:
    """A box per group, the largest groups first where there are too many. Groups must not be empty."""
    largest = sorted(groups.items(), key=lambda group: -len(group[1]))
    shown, left = largest[:MOST], len(largest) - MOST
    if len(groups) <= MOST:
        shown = list(groups.items())
    rows, cells = [], []
    for label, values in shown:
        points = [percentile(values, percent) for percent in _PERCENTS]
        rows.append(
            {
                "label": label,
                **{f"p{percent}": at / how.divisor for percent, at in zip(_PERCENTS, points, strict=True)},
                "shown": " / ".join(map(how, points)),
            }
        )
        cells.append((label, f"{len(values):,}", *map(how, points)))
    heads = (counted_as, *("median" if percent == 50 else f"{percent} %" for percent in _PERCENTS))
    columns = (Column("case"), *(Column(head, right=True) for head in heads))
    text = (
        "The line goes from the 1st to the 99th percentile, the box holds the middle half, the mark is the median; "
        f"in {how.unit or 'no unit'}."
    )
    if left > 0:
        text += f" {left:,} more with fewer {counted_as} are not drawn."
    return Plot(title, text, charts.boxes(rows, axis), Table(columns, tuple(cells)))


def _row(value: Value, how: Scale) -> dict[str, object]:
    row: dict[str, object] = {
        "label": value.label,
        "series": value.series,
        "value": value.value / how.divisor,
        "shown": f"{how.own(value.value)} {how.unit}".rstrip(),
    }
    if value.low is not None and value.high is not None:
        row |= {"low": value.low / how.divisor, "high": value.high / how.divisor}
        row["interval"] = how.own_interval(value.low, value.high)
    return row


def _interval(value: Value, how: Scale) -> Cell:
    if value.low is None or value.high is None:
        return Cell("–", "quiet")
    return Cell(how.own_interval(value.low, value.high))
