"""Tables and descriptions of the scaling section."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from dlperf_sdk.reports.blocks import ABSENT, Cell, Column, Table, interval_cell
from dlperf_sdk.reports.html.forecast import Forecast
from dlperf_sdk.reports.html.scaling_series import Series, size_of
from dlperf_sdk.reports.numbers import Scale, format_count, quantity


def numbers_table(
    series: Sequence[Series], scale: Scale, predicted: Sequence[Forecast]
) -> tuple[Table, list[str]]:
    """Return a table with a row for each point and prediction, and the footnotes that its cells refer to.

    The footnotes are the reasons why points have no speedup, then the notes of the predictions, each once.

    Args:
        series: The measured series.
        scale: Scale of the throughputs, in whose unit the table has them.
        predicted: Predictions of larger topologies; may be empty.
    """
    reasons: list[str] = []
    rows: list[tuple[Cell | str, ...]] = []
    for curve in series:
        for point in curve.points:
            case, scaled = point.merged.case, point.speedup
            if scaled.reason and scaled.reason not in reasons:
                reasons.append(scaled.reason)
            mark = Cell(f"– [{reasons.index(scaled.reason) + 1}]", "quiet") if scaled.reason else None
            rows.append(
                (
                    curve.name,
                    str(case.topology),
                    str(case.topology.devices),
                    scale.format_alone(case.throughput),
                    interval_cell(point.merged.low, point.merged.high, scale.format_interval_alone),
                    mark or f"{scaled.value:.2f}×",
                    mark or f"{point.efficiency.value:.1%}",
                )
            )
    for forecast in predicted:
        after = forecast.prediction
        rows.append(
            (
                forecast.name,
                f"{after.topology} (predicted, 90 % interval)",
                str(after.topology.devices),
                ABSENT if after.throughput is None else scale.format_alone(after.throughput),
                scale.format_interval_alone(after.low, after.high),
                ABSENT,
                ABSENT,
            )
        )
        reasons += [note for note in after.notes if note not in reasons]
    columns = (
        Column("series", key=True),
        Column("topology", key=True),
        Column("devices", right=True),
        Column(f"throughput, {scale.unit}", right=True),
        Column("interval", right=True),
        Column("speedup", right=True),
        Column("efficiency", right=True),
    )
    return Table(columns, tuple(rows)), reasons


def describe(series: Sequence[Series], drawn: Sequence[Series], unit: str) -> str:
    """Return two sentences, as one text, on a scaling plot: its lines and numbers of devices, and the top throughput.

    The throughput is the highest of all series, drawn or not.

    Args:
        series: All series.
        drawn: The series that the plot draws, at least one.
        unit: Unit of the throughputs, without a prefix.

    Raises:
        ValueError: There is no series.
    """
    points = [(curve, point) for curve in series for point in curve.points]
    counts = sorted({point.merged.case.topology.devices for curve in drawn for point in curve.points})
    lines, of_all = format_count(len(drawn), "line"), ""
    if len(drawn) < len(series):
        lines, of_all = f"{len(drawn)} of {format_count(len(series), 'line')}", f" of all {len(series)}"
    best, top = max(points, key=lambda entry: entry[1].merged.case.throughput)
    return (
        f"{lines} from {counts[0]} to {format_count(counts[-1], 'device')}. The highest throughput{of_all} is "
        f"{quantity(top.merged.case.throughput, unit)}: {best.name}{_mark_of_another_plot(best, drawn)} on "
        f"{top.merged.case.topology}."
    )


def _mark_of_another_plot(curve: Series, drawn: Sequence[Series]) -> str:
    return "" if any(curve is other for other in drawn) else " (in another plot)"


def describe_efficiency(
    series: Sequence[Series], drawn: Sequence[Series], limits: Collection[int] = ()
) -> str:
    """Return a sentence on the meaning of efficiencies, and one with the best and the worst, as one text.

    The best and the worst are compared on the largest topology with several devices and at least two ranked series. A
    series that its data loader limits is not ranked: its efficiency is that of the loader. Without such a topology, the
    text is the first sentence only.

    Args:
        series: All series.
        drawn: The series that the plot draws.
        limits: `id(series)` of each series that its data loader limits.
    """
    by_topology: dict[tuple[int, int], list[tuple[float, Series]]] = {}
    for curve in series:
        for point in curve.points:
            if point.efficiency.value is not None and point.merged.case.topology.devices > 1:
                by_topology.setdefault(size_of(point.merged), []).append((point.efficiency.value, curve))
    text = "Percent of perfect scaling."
    shared = [
        size
        for size, values in by_topology.items()
        if sum(id(curve) not in limits for _, curve in values) > 1
    ]
    if not shared:
        return text
    values = by_topology[max(shared)]
    ranked = [entry for entry in values if id(entry[1]) not in limits]
    (best, first), (worst, last) = (choose(ranked, key=lambda entry: entry[0]) for choose in (max, min))
    topology = next(
        point.merged.case.topology for point in first.points if size_of(point.merged) == max(shared)
    )
    # The rule and the series that are not ranked stand once, above all plots.
    of_all = f" of {len(ranked)} ranked" if len(ranked) < len(values) else ""
    of_all = of_all or ("" if len(drawn) == len(series) else f" of {len(ranked)}")
    return (
        f"{text} On {topology} the best{of_all} is {first.name}{_mark_of_another_plot(first, drawn)} with {best:.1%}, "
        f"the worst {last.name}{_mark_of_another_plot(last, drawn)} with {worst:.1%}."
    )
