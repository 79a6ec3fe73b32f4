"""Comparison of two measurements: their ratio, its interval, and the reasons why they may not be comparable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from dlperf_sdk.analysis.case import Case, differing_facts, key, require_fact
from dlperf_sdk.analysis.rank_test import LEVEL, hodges_lehmann_shift, mann_whitney_p
from dlperf_sdk.errors import NotComparable
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.results.result import Result

RESERVED_FACTS = ("estimator", "input_pipeline", "layout", "loss_scale", "transport")
"""Facts that a ranking does not hold equal: it states a reservation where the first two cases differ in one."""
ESSENTIAL_FACTS = ("data", *RESERVED_FACTS)
"""Facts besides the workload that decide whether two measurements are comparable. A difference in one of them rules a
comparison out, unless the comparison is about that fact."""


NOT_STATED = "not stated"
"""Text in place of a value that a side does not state."""


@frozen
class Comparison:
    """Ratio of the throughputs of two measurements, and the differences between them."""

    a: Case
    """The measurement whose throughput is divided."""
    b: Case
    """The measurement that it is divided by."""
    ratio: float
    """Throughput of `a` divided by that of `b`."""
    low: float | None
    """Lower end of the interval; None if `high` is None."""
    high: float | None
    """Upper end of the interval of at least 95 %, which inverts the test of `p`. None if one side has no repeats,
    or too few for a significant test."""
    p: float | None
    """Two-sided p-value of the exact rank-sum test; None if one side has no repeats."""
    significant: bool | None
    """True if the interval excludes 1; None without an interval."""
    reasons: tuple[str, ...]
    """Reasons why the two are not comparable; empty unless `compare` was called with `footnoted`."""
    footnotes: tuple[str, ...]
    """Differences in context, and facts that decide comparability, or the compiler, that only one side states."""
    factors: tuple[str, ...]
    """Differences in factors, including the facts that the comparison is about."""


def compare(
    a: Case | Result | PublishedFigure,
    b: Case | Result | PublishedFigure,
    *,
    factors: Sequence[str] = (),
    footnoted: bool = False,
) -> Comparison:
    """Compare two measurements of the same workload.

    They must agree in the unit, the workload (model, batch size, clipping, …) and the facts of `ESSENTIAL_FACTS` (data
    source, estimator, layout, loss scale, …), except for the facts named in `factors`. Between two frameworks, the
    framework's version and a layout that both frameworks chose are not counted as differences of their own.

    Args:
        a: The measurement whose throughput is divided.
        b: The measurement that it is divided by.
        factors: Names of the facts that the comparison is about, and that may differ.
        footnoted: True to list reasons against the comparison in its `reasons` instead of raising `NotComparable`.

    Returns:
        The ratio of `a` to `b`, its test if both have repeats, and the differences between them.

    Raises:
        NotComparable: The measurements differ in a fact in which they must agree, and `footnoted` is False.
        UnknownName: `factors` names a fact that neither side has.
        AnalysisError: `Case.from_source` refuses `a` or `b`.
    """
    first, second = Case.from_source(a), Case.from_source(b)
    for name in factors:
        require_fact(name, (first, second))
    reasons, footnotes, differing_factors = _differences(first, second, factors)
    if reasons and not footnoted:
        raise NotComparable(
            f"{first.name} and {second.name} do not measure the same thing; they differ in {'; '.join(reasons)}. "
            "Name in `factors` what the comparison is of, or ask for it with footnotes (footnoted=True).",
            reasons,
        )
    low = high = p = significant = None
    if first.repeats and second.repeats:
        shift = hodges_lehmann_shift(first.repeats, second.repeats)
        low, high, p = shift.low, shift.high, mann_whitney_p(first.repeats, second.repeats)
        significant = None if low is None else p <= LEVEL
    ratio = first.throughput / second.throughput
    return Comparison(
        first,
        second,
        ratio,
        low,
        high,
        p,
        significant,
        tuple(reasons),
        tuple(footnotes),
        tuple(differing_factors),
    )


def _differences(first: Case, second: Case, factors: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the differences as reasons, footnotes and factors."""
    reasons, footnotes, differing_factors = [], [], []
    if first.unit != second.unit:
        reasons.append(f"unit: {first.unit} against {second.unit}")
    differing = differing_facts((first, second))
    framework_facts = set(first.framework_facts) & set(second.framework_facts)
    for name in sorted(differing):
        if "framework" in differing and name in framework_facts and name not in factors:
            continue
        text = _format_difference(name, first, second)
        role = first.roles.get(name) or second.roles[name]
        is_essential = role == "workload" or (
            name in ESSENTIAL_FACTS and not (name == "layout" and name in framework_facts)
        )
        if name in factors:
            differing_factors.append(text)
        elif name not in first.facts or name not in second.facts:
            # A fact that only one side states cannot be compared.
            if is_essential or name == "compiler":
                footnotes.append(text)
        elif is_essential:
            reasons.append(text)
        elif role == "factor":
            differing_factors.append(text)
        else:
            footnotes.append(text)
    return reasons, footnotes, differing_factors


def _format_difference(name: str, first: Case, second: Case) -> str:
    if name == "framework":
        return f"{name}: {first.framework} against {second.framework}"
    return f"{name}: {_format(first.facts.get(name))} against {_format(second.facts.get(name))}"


def _format(value: Any) -> str:
    if value is None:
        return NOT_STATED
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_format(value[name])}" for name in sorted(value))
    return value if isinstance(value, str) else key(value)
