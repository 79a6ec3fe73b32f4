"""Compute the effect of one factor, everything else equal: paired ratios, their median, and its significance.

Pairs of one framework are alike: they share its kernels, its implementation of the model and mostly a machine. A test
that takes them for independent finds effects where there are none, so the units of the interval and its test are
frameworks, each with the median of its pairs; of the effect of `framework` itself they are models. Below six units no
test of signs reaches 5 %. A single pair has the test of its repeats.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
from attrs import field, frozen

from dlperf_sdk.analysis.case import Case, cases, differing_facts, key, require_fact
from dlperf_sdk.analysis.rank_test import LEVEL, hodges_lehmann_shift, mann_whitney_p
from dlperf_sdk.analysis.significance import sign_test
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

    factor: str
    levels: tuple[Any, Any]
    """The value whose throughput is divided, and the one that it is divided by."""
    holding: tuple[str, ...]
    confounded: tuple[str, ...]
    """Facts that changed with the factor, so that their effects cannot be separated."""
    pairs: tuple[Pair, ...]
    unpaired: int
    """Cases of either level without a partner."""
    pairs_are_units: bool = False
    """True if the pairs are taken as independent of each other."""
    comparisons: int = 1
    """The number of effects for which interval and test hold together (Bonferroni)."""
    units: Mapping[str, float] = field(init=False)
    """The framework, model or number of each unit → the median ratio of its pairs."""
    median: float = field(init=False)
    """The median over the units."""
    low: float | None = field(init=False)
    high: float | None = field(init=False)
    """The 95 % interval that inverts the test of `p`; None where so few units or repeats cannot be significant."""
    p: float = field(init=False)
    """The p-value of the sign test of the units, of a single pair that of the rank-sum test of its repeats, times
    `comparisons`."""
    significant: bool | None = field(init=False)
    """True if the interval excludes 1; None without an interval."""

    def __attrs_post_init__(self) -> None:
        level = LEVEL / self.comparisons
        units = self._medians_of_units()
        ratios = list(units.values())
        low, high = median_interval(ratios, 1 - level) or (None, None)
        p = sign_test(ratios).p
        a, b = self.pairs[0].a.repeats, self.pairs[0].b.repeats
        if len(self.pairs) == 1 and a and b:
            shift = hodges_lehmann_shift(a, b, level)
            low, high, p = shift.low, shift.high, mann_whitney_p(a, b)
        for name, value in (
            ("units", units),
            ("median", median(ratios)),
            ("low", low),
            ("high", high),
            ("p", min(1.0, p * self.comparisons)),
            ("significant", None if low is None else p <= level),
        ):
            object.__setattr__(self, name, value)

    @property
    def unit(self) -> str:
        """Unit of the estimate: `framework`, `model` or `pair`."""
        return "pair" if self.pairs_are_units else "model" if self.factor == "framework" else "framework"

    def _medians_of_units(self) -> dict[str, float]:
        units: dict[str, list[float]] = {}
        for number, pair in enumerate(self.pairs, 1):
            name = str(number if self.pairs_are_units else pair.a.facts.get(self.unit))
            units.setdefault(name, []).append(pair.ratio)
        return {name: median(ratios) for name, ratios in units.items()}


def effect(
    sources: Iterable[Case | Result | PublishedFigure],
    *,
    factor: str,
    levels: Sequence[Any] | None = None,
    pairs_are_units: bool = False,
) -> Effect:
    """Compute the ratios of throughputs between two values of `factor`, over pairs with everything else equal.

    The cases of a pair share all facts in which the cases differ, except those that the factor determines (a machine
    that has only one kind of GPU): these are named as confounded. A framework's version, and the layout that it chose,
    belong to the factor `framework`.

    Args:
        sources: The cases.
        factor: The name of the factor.
        levels: The value whose throughput is divided, and the one that it is divided by. Without them the factor
            must have two values, and the first in the cases' order is divided by the second.
        pairs_are_units: True to take the pairs as independent of each other, as cases of separate systems are.

    Raises:
        UnknownName: no case has a fact named `factor`.
        AnalysisError: the factor does not have two values, no cases pair, or several cases are one side of a pair.
    """
    all_cases = cases(sources)
    require_fact(factor, all_cases)
    a, b = _levels(all_cases, factor, levels)
    sides = [case for case in all_cases if key(case.facts.get(factor)) in (key(a), key(b))]
    varying = differing_facts(sides) - {factor}
    if factor == "framework":
        varying -= {name for name in varying if all(name in case.of_framework for case in sides)}
    settled = {
        name
        for name in varying
        if all(
            len({key(case.facts.get(name)) for case in sides if key(case.facts.get(factor)) == key(level)})
            == 1
            for level in (a, b)
        )
    }
    holds = {name for case in sides for name in case.holds()}
    fixed = tuple(sorted((varying & holds) - settled))
    first, second = (_group_by_held_facts(sides, factor, level, fixed) for level in (a, b))
    pairs = tuple(
        Pair(case, second[held_values], {name: case.facts.get(name) for name in fixed})
        for held_values, case in first.items()
        if held_values in second
    )
    if not pairs:
        raise AnalysisError(
            f"No case with {factor} {a} has a partner with {factor} {b} that is equal in "
            f"{', '.join(fixed) or 'the rest'}."
        )
    units = {case.unit for pair in pairs for case in (pair.a, pair.b)}
    if len(units) > 1:
        raise AnalysisError(f"The throughputs of a pair have different units: {', '.join(sorted(units))}.")
    confounded = tuple(sorted(settled))
    return Effect(factor, (a, b), fixed, confounded, pairs, len(sides) - 2 * len(pairs), pairs_are_units)


def adjust_effects(effects: Sequence[Effect]) -> tuple[Effect, ...]:
    """Widen the intervals of effects that are shown together, so that all of them hold at 95 %.

    The p-values are multiplied by the number of effects that have an interval (Bonferroni), so the interval still
    excludes 1 exactly where the test is significant.
    """
    tested = max(1, sum(effect.low is not None for effect in effects))
    return tuple(attrs.evolve(effect, comparisons=tested) for effect in effects)


def _levels(all_cases: Sequence[Case], factor: str, levels: Sequence[Any] | None) -> tuple[Any, Any]:
    values = {key(case.facts[factor]): case.facts[factor] for case in all_cases if factor in case.facts}
    if levels is None:
        levels = tuple(values.values())
        if len(levels) != 2:
            listed = ", ".join(map(str, levels))
            raise AnalysisError(
                f"{factor} has {len(levels)} values here ({listed}): say with `levels` which two."
            )
    if len(levels) != 2 or any(key(level) not in values for level in levels):
        raise AnalysisError(
            f"levels is {tuple(levels)!r}; it must be two of the values that {factor} has: "
            f"{', '.join(map(str, values.values()))}."
        )
    return levels[0], levels[1]


def _group_by_held_facts(
    sides: Sequence[Case], factor: str, level: Any, fixed: Sequence[str]
) -> dict[tuple[str, ...], Case]:
    groups: dict[tuple[str, ...], Case] = {}
    for case in sides:
        if key(case.facts.get(factor)) != key(level):
            continue
        held_values = tuple(key(case.facts.get(name)) for name in fixed)
        if held_values in groups:
            names = ", ".join(sorted(differing_facts((case, groups[held_values])))) or "nothing that is known"
            raise AnalysisError(
                f"{case.name} and {groups[held_values].name} are the same side of a pair: they differ in {names}. "
                "Hold one of these, or leave one case out."
            )
        groups[held_values] = case
    return groups
