"""Compare two measurements: their ratio, its interval, and the reasons why they may not be comparable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from dlperf_sdk.analysis.case import Case, differing_facts, key, require_fact
from dlperf_sdk.analysis.rank_test import LEVEL, hodges_lehmann_shift, mann_whitney_p
from dlperf_sdk.errors import NotComparable
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.results.result import Result

MATTERING = ("data", "estimator", "input_pipeline", "layout", "loss_scale", "transport")
"""Facts beside the workload that change what is compared: a difference in one of them is a reason, too, unless
the comparison is of it."""


@frozen
class Comparison:
    """The throughput of `a` over that of `b`."""

    a: Case
    b: Case
    ratio: float
    low: float | None
    high: float | None
    """The interval of at least 95 % that inverts the test; None where so few repeats cannot be significant."""
    p: float | None
    """The p-value of the exact rank-sum test; None without repeats of both."""
    significant: bool | None
    """True where the interval excludes 1; None without one."""
    reasons: tuple[str, ...]
    """Reasons why the two are not comparable; empty unless footnotes were asked for."""
    footnotes: tuple[str, ...]
    """Differences in context, and workload facts that only one of them states."""
    factors: tuple[str, ...]
    """The factors in which they differ."""


def compare(
    a: Case | Result | PublishedFigure,
    b: Case | Result | PublishedFigure,
    *,
    of: Sequence[str] = (),
    footnoted: bool = False,
) -> Comparison:
    """Compare two measurements of the same workload.

    They must not differ in the workload (model, batch, clipping, …) nor in what `MATTERING` names, but for the
    facts named in `of`. With `footnoted` the reasons are listed instead. A framework's version and the layout that it
    chose are no differences of their own between two frameworks.

    Raises:
        NotComparable: they differ, and it was not asked for footnotes.
        UnknownName: `of` names a fact that neither has.
        AnalysisError: one has no throughput.
    """
    one, other = Case.from_source(a), Case.from_source(b)
    for name in of:
        require_fact(name, (one, other))
    reasons, footnotes, factors = _differences(one, other, of)
    if reasons and not footnoted:
        raise NotComparable(
            f"{one.name} and {other.name} do not measure the same thing; they differ in {'; '.join(reasons)}. "
            "Name in `of` what the comparison is of, or ask for it with footnotes (footnoted=True).",
            reasons,
        )
    low = high = p = significant = None
    if one.repeats and other.repeats:
        shift = hodges_lehmann_shift(one.repeats, other.repeats)
        low, high, p = shift.low, shift.high, mann_whitney_p(one.repeats, other.repeats)
        significant = None if low is None else p <= LEVEL
    ratio = one.throughput / other.throughput
    return Comparison(
        one, other, ratio, low, high, p, significant, tuple(reasons), tuple(footnotes), tuple(factors)
    )


def _differences(one: Case, other: Case, of: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the differences as reasons, footnotes and factors."""
    reasons, footnotes, factors = [], [], []
    if one.unit != other.unit:
        reasons.append(f"unit: {one.unit} against {other.unit}")
    differing = differing_facts((one, other))
    of_framework = set(one.of_framework) & set(other.of_framework)
    for name in sorted(differing):
        if "framework" in differing and name in of_framework and name not in of:
            continue
        text = _format_difference(name, one, other)
        role = one.roles.get(name) or other.roles[name]
        is_essential = role == "workload" or (
            name in MATTERING and not (name == "layout" and name in of_framework)
        )
        if name in of:
            factors.append(text)
        elif name not in one.facts or name not in other.facts:
            # What only one of the two states cannot be judged.
            if is_essential:
                footnotes.append(text)
        elif is_essential:
            reasons.append(text)
        elif role == "factor":
            factors.append(text)
        else:
            footnotes.append(text)
    return reasons, footnotes, factors


def _format_difference(name: str, one: Case, other: Case) -> str:
    if name == "framework":
        return f"{name}: {one.framework} against {other.framework}"
    return f"{name}: {_format(one.facts.get(name))} against {_format(other.facts.get(name))}"


def _format(value: Any) -> str:
    return "not stated" if value is None else value if isinstance(value, str) else key(value)
