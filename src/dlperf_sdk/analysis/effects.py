"""Compute the effect of one factor, everything else equal: paired ratios, their median, and its significance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from dlperf_sdk.analysis.case import Case, cases, differing_facts, key, require_fact
from dlperf_sdk.analysis.rank_test import LEVEL, hodges_lehmann_shift, mann_whitney_p
from dlperf_sdk.analysis.significance import SignTest, sign_test
from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.results.result import Result
from dlperf_sdk.worker.estimate import median, median_interval


@frozen
class Pair:
    """Two cases that differ in the factor only, as far as is known."""

    a: Case
    b: Case
    shared: Mapping[str, Any]
    """The facts that both share, of those in which pairs differ."""

    @property
    def ratio(self) -> float:
        """The throughput of `a` over that of `b`."""
        return self.a.throughput / self.b.throughput


@frozen
class Effect:
    """The ratio of throughputs between two values of a factor."""

    of: str
    levels: tuple[Any, Any]
    """The value whose throughput is divided, and the one that it is divided by."""
    holding: tuple[str, ...]
    confounded: tuple[str, ...]
    """Facts that changed with the factor, so that their effects cannot be separated."""
    pairs: tuple[Pair, ...]
    unpaired: int
    """Cases of either level without a partner."""
    median: float = field(init=False)
    low: float | None = field(init=False)
    high: float | None = field(init=False)
    """The 95 % interval that inverts the test of `p`; None where so few pairs or repeats cannot be significant."""
    test: SignTest = field(init=False)
    p: float = field(init=False)
    """The p-value of the sign test of the pairs; of a single pair, of the rank-sum test of its repeats."""

    def __attrs_post_init__(self) -> None:
        ratios = [pair.ratio for pair in self.pairs]
        test = sign_test(ratios)
        low, high = median_interval(ratios) or (None, None)
        p = test.p
        a, b = self.pairs[0].a.repeats, self.pairs[0].b.repeats
        if len(self.pairs) == 1 and a and b:
            shift = hodges_lehmann_shift(a, b)
            low, high, p = shift.low, shift.high, mann_whitney_p(a, b)
        for name, value in (
            ("median", median(ratios)),
            ("low", low),
            ("high", high),
            ("test", test),
            ("p", p),
        ):
            object.__setattr__(self, name, value)

    @property
    def significant(self) -> bool | None:
        """Return True if the interval excludes 1; None without an interval.

        Pairs that share a series (the same case at several topologies) are not independent: it is the
        strength of a pattern, not a confirmed effect.
        """
        return None if self.low is None else self.p <= LEVEL


def effect(
    sources: Iterable[Case | Result | PublishedFigure],
    *,
    of: str,
    levels: Sequence[Any] | None = None,
) -> Effect:
    """Compute the ratios of throughputs between two values of the factor `of`, over pairs with everything else equal.

    The cases of a pair share all facts in which the cases differ, except those that the factor determines (a machine
    that has only one kind of GPU): these are named as confounded. A framework's version, and the layout that it chose,
    belong to the factor `framework`.

    Args:
        sources: The cases.
        of: The name of the factor.
        levels: The value whose throughput is divided, and the one that it is divided by. Without them the factor
            must have two values, and the first in the cases' order is divided by the second.

    Raises:
        UnknownName: no case has a fact named `of`.
        AnalysisError: the factor does not have two values, no cases pair, or several cases are one side of a pair.
    """
    many = cases(sources)
    require_fact(of, many)
    a, b = _levels(many, of, levels)
    sides = [case for case in many if key(case.facts.get(of)) in (key(a), key(b))]
    varying = differing_facts(sides) - {of}
    if of == "framework":
        varying -= {name for name in varying if all(name in case.of_framework for case in sides)}
    settled = {
        name
        for name in varying
        if all(
            len({key(case.facts.get(name)) for case in sides if key(case.facts.get(of)) == key(level)}) == 1
            for level in (a, b)
        )
    }
    holds = {name for case in sides for name in case.holds()}
    fixed = tuple(sorted((varying & holds) - settled))
    first, second = (_group_by_held_facts(sides, of, level, fixed) for level in (a, b))
    pairs = tuple(
        Pair(case, second[at], {name: case.facts.get(name) for name in fixed})
        for at, case in first.items()
        if at in second
    )
    if not pairs:
        raise AnalysisError(
            f"No case with {of} {a} has a partner with {of} {b} that is equal in {', '.join(fixed) or 'the rest'}."
        )
    units = {case.unit for pair in pairs for case in (pair.a, pair.b)}
    if len(units) > 1:
        raise AnalysisError(f"The throughputs of a pair have different units: {', '.join(sorted(units))}.")
    confounded = tuple(sorted(settled))
    return Effect(of, (a, b), fixed, confounded, pairs, len(sides) - 2 * len(pairs))


def _levels(many: Sequence[Case], of: str, levels: Sequence[Any] | None) -> tuple[Any, Any]:
    values = {key(case.facts[of]): case.facts[of] for case in many if of in case.facts}
    if levels is None:
        levels = tuple(values.values())
        if len(levels) != 2:
            shown = ", ".join(map(str, levels))
            raise AnalysisError(f"{of} has {len(levels)} values here ({shown}): say with `levels` which two.")
    if len(levels) != 2 or any(key(level) not in values for level in levels):
        raise AnalysisError(
            f"levels is {tuple(levels)!r}; it must be two of the values that {of} has: "
            f"{', '.join(map(str, values.values()))}."
        )
    return levels[0], levels[1]


def _group_by_held_facts(
    sides: Sequence[Case], of: str, level: Any, fixed: Sequence[str]
) -> dict[tuple[str, ...], Case]:
    groups: dict[tuple[str, ...], Case] = {}
    for case in sides:
        if key(case.facts.get(of)) != key(level):
            continue
        at = tuple(key(case.facts.get(name)) for name in fixed)
        if at in groups:
            names = ", ".join(sorted(differing_facts((case, groups[at])))) or "nothing that is known"
            raise AnalysisError(
                f"{case.name} and {groups[at].name} are the same side of a pair: they differ in {names}. Hold one "
                "of these, or leave one case out."
            )
        groups[at] = case
    return groups
