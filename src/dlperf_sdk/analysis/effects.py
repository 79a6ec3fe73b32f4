"""Effect of one factor, everything else equal: paired ratios, their median, and its significance.

Pairs of one framework are alike: they share its kernels, its implementation of the model and mostly a machine. A
test that takes them as independent finds effects where there are none. Therefore the units of the interval and
its test are frameworks, each with the median of its pairs; for the effect of `framework` itself the units are
models. Below six units no sign test reaches 5 %. A single pair is tested by its repeats.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
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

_PARTS = {"precision": ("loss_scale",)}
"""Factor → facts that belong to some of its levels, and that cases with another level cannot have."""


@frozen
class Pair:
    """Two cases that differ in the factor only, as far as is known."""

    a: Case
    """The case with the first level."""
    b: Case
    """The case with the second level."""
    shared: Mapping[str, Any]
    """Facts of `Effect.holding` → the value that both cases have."""

    @property
    def ratio(self) -> float:
        """Throughput of `a` divided by that of `b`."""
        return self.a.throughput / self.b.throughput


@frozen
class Effect:
    """Ratio of throughputs between two values of a factor."""

    factor: str
    """Name of the factor."""
    levels: tuple[Any, Any]
    """The two values: first that of `Pair.a`, whose throughput is divided, then that of `Pair.b`."""
    holding: tuple[str, ...]
    """Facts that vary among the cases, and that are equal within each pair."""
    confounded: tuple[str, ...]
    """Facts that changed together with the factor, so that the effects cannot be separated."""
    pairs: tuple[Pair, ...]
    """All pairs, at least one."""
    unpaired: int
    """Number of cases with either value that have no partner."""
    pairs_are_units: bool = False
    """True if the pairs are taken as independent of each other."""
    comparisons: int = 1
    """Number of effects for which the intervals and tests hold together (Bonferroni)."""
    units: Mapping[str, float] = field(init=False)
    """Name of each unit (a framework, a model, or a pair's number) → median ratio of its pairs."""
    median: float = field(init=False)
    """Median ratio over the units."""
    low: float | None = field(init=False)
    """Lower end of the interval; None if `high` is None."""
    high: float | None = field(init=False)
    """Upper end of the 95 % interval, which inverts the test of `p`; None with too few units or repeats for
    significance."""
    p: float = field(init=False)
    """p-value times `comparisons`: of the sign test of the units or, for a single pair with repeats, of the
    rank-sum test."""
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
        """Kind of the keys of `units`: `framework`, `model` or `pair`."""
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
    """Compute the ratios of throughputs between two values of a factor, over pairs that are equal in other facts.

    The two cases of a pair agree in all identifying facts, with three exceptions:

    - A fact may differ if all cases with the same value of the factor agree in it. If the factor is the GPU, and each
      kind of GPU is in another machine, the machine is such a fact. These facts are reported in `Effect.confounded`.
    - A fact may differ if it exists with only one value of the factor, such as the loss scale of a mixed precision.
      A case of the other value is paired with each variant.
    - If the factor is `framework`, the framework's version and a layout that it chose may differ.

    Args:
        sources: The cases. Those with other values of the factor are ignored.
        factor: Name of the fact.
        levels: The value whose throughput is divided, and the one that it is divided by. None: the factor must have
            exactly two values, and the first in the order of the cases is divided by the second.
        pairs_are_units: True to treat the pairs as independent of each other, such as pairs of separate systems.

    Returns:
        The effect, with its pairs in the order of the cases. Its median, interval and test are computed over its
        units: the frameworks (the models, if the factor is `framework`), or the pairs if `pairs_are_units`. For a
        single pair with repeats, interval and test are those of the rank-sum test of the repeats.

    Raises:
        UnknownName: No case has a fact named `factor`.
        AnalysisError: `Case.from_source` refuses a source; the levels are not two values of the factor; there is no
            pair; two cases with the same value of the factor would have equal `Pair.shared`, and are not variants of
            each other; or the throughputs have different units.
    """
    all_cases = cases(sources)
    require_fact(factor, all_cases)
    a, b = _levels(all_cases, factor, levels)
    sides = [case for case in all_cases if key(case.facts.get(factor)) in (key(a), key(b))]
    varying = differing_facts(sides) - {factor}
    if factor == "framework":
        varying -= {name for name in varying if all(name in case.framework_facts for case in sides)}
    settled = {
        name
        for name in varying
        if all(
            len({key(case.facts.get(name)) for case in sides if key(case.facts.get(factor)) == key(level)})
            == 1
            for level in (a, b)
        )
    }
    parts = _parts(sides, factor, (a, b))
    identifying = {name for case in sides for name in case.identifying_facts()}
    fixed = tuple(sorted((varying & identifying) - settled - parts))
    first, second = (_group_by_held_facts(sides, factor, level, fixed, parts) for level in (a, b))
    pairs = tuple(
        Pair(case, other, {name: case.facts.get(name) for name in fixed})
        for held_values, members in first.items()
        for case in members
        for other in second.get(held_values, ())
    )
    if not pairs:
        raise AnalysisError(
            f"No case with {factor} {a} has a partner with {factor} {b} that is equal in "
            f"{', '.join(fixed) or 'the rest'}."
        )
    units = {case.unit for pair in pairs for case in (pair.a, pair.b)}
    if len(units) > 1:
        raise AnalysisError(f"The throughputs of a pair have different units: {', '.join(sorted(units))}.")
    confounded = tuple(sorted(settled - parts))
    unpaired = len(sides) - len({id(case) for pair in pairs for case in (pair.a, pair.b)})
    return Effect(factor, (a, b), fixed, confounded, pairs, unpaired, pairs_are_units)


def adjust_effects(effects: Sequence[Effect]) -> tuple[Effect, ...]:
    """Return the effects with wider intervals and larger p-values, so that all of them hold at 95 % together.

    The effects keep their order. The p-values are multiplied by the number of effects that have an interval
    (Bonferroni), up to 1. An effect whose units or repeats are too few for the stricter level loses its interval:
    its `low`, `high` and `significant` become None. An interval that remains excludes 1 exactly where the test is
    significant. The given effects stay unchanged.
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


def _parts(sides: Sequence[Case], factor: str, levels: Sequence[Any]) -> set[str]:
    """Return the facts that belong to one level of the factor: no case with the other level states them."""
    stating = {
        name: {key(case.facts.get(factor)) for case in sides if name in case.facts}
        for name in _PARTS.get(factor, ())
    }
    return {name for name, stated in stating.items() if stated and stated < set(map(key, levels))}


def _group_by_held_facts(
    sides: Sequence[Case], factor: str, level: Any, fixed: Sequence[str], parts: Collection[str]
) -> dict[tuple[str, ...], list[Case]]:
    """Return the cases with a level by their held values; several cases of a group differ in parts of the level."""
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in sides:
        if key(case.facts.get(factor)) != key(level):
            continue
        members = groups.setdefault(tuple(key(case.facts.get(name)) for name in fixed), [])
        for other in members:
            differing = differing_facts((case, other))
            if not differing & set(parts):
                names = ", ".join(sorted(differing)) or "nothing that is known"
                raise AnalysisError(
                    f"{case.name} and {other.name} are the same side of a pair: they differ in {names}. "
                    "Hold one of these, or leave one case out."
                )
        members.append(case)
    return groups
