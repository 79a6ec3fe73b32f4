"""Tables of how the time of a step divides into computation, communication and input."""

from __future__ import annotations

from collections.abc import Iterable

from dlperf_sdk.analysis.attribution import Attribution, Span, attribute
from dlperf_sdk.reports.blocks import Cell, Column, Table
from dlperf_sdk.reports.labels import batch_size, case_title
from dlperf_sdk.reports.numbers import Scale, common_scale
from dlperf_sdk.results.result import Result

TITLE = "Where the time of a step goes"
EXPLANATION = (
    "Exposed communication is the step of training minus that of compute; the input stall is the whole step minus that "
    "of training. Each time has its own 95 % interval, so the parts add up to the step only within these intervals. A "
    "part that takes longer alone than it costs here overlaps with the others."
)


def tables(results: Iterable[Result]) -> list[Table]:
    """Return a table for each case whose step was measured in parts; empty without any.

    A case has a table if the part `compute` of its step was measured, and `training` or `whole`. Results without a
    valid throughput are left out. The tables are in the order in which the first run of each case started. The rows are
    compute, exposed communication, input stall and the whole step. A row has the time per step, the interval of this
    time, its share of the step, and the time when measured alone.
    """
    return [_table(attribution) for attribution in attribute(results)]


def _table(attribution: Attribution) -> Table:
    parts = (
        ("compute", attribution.compute, attribution.compute),
        ("exposed communication", attribution.communication, attribution.communication_alone),
        ("input stall", attribution.input_stall, attribution.input_alone),
        ("step", attribution.step, attribution.step),
    )
    known = [(name, span, alone) for name, span, alone in parts if span is not None]
    scale = common_scale([span.seconds for _, span, _ in known], "s")
    columns = (
        Column("part", key=True),
        Column(f"time ({scale.unit})", right=True),
        Column("95 % interval", right=True),
        Column("of the step", right=True),
        Column(f"alone ({scale.unit})", right=True),
    )
    rows = [
        (
            name,
            scale(span.seconds),
            _interval(span, scale),
            f"{span.seconds / attribution.step.seconds:.1%}",
            "–" if alone is None else scale(alone.seconds),
        )
        for name, span, alone in known
    ]
    spec = attribution.spec
    title = f"{case_title(spec)} · {batch_size(spec)} per device · {spec.data}"
    return Table(columns, tuple(rows), title)


def _interval(span: Span, scale: Scale) -> Cell:
    if span.low is None or span.high is None:
        return Cell("too few repeats", "doubt")
    interval = scale.interval(span.low, span.high)
    return Cell(f"{interval}, includes 0", "doubt") if span.low <= 0 <= span.high else Cell(interval)
