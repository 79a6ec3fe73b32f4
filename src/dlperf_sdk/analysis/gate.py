"""The gate: decide case by case whether anything became slower, by significance and by a minimum effect.

Two rates are stated, for all cases of a gate together: where nothing changed, it fails in at most `level` of all
comparisons (Holm's procedure); where a case is slower by the minimum effect or more, it passes in at most `level` of
them, since every case must rule out such a slowdown (an intersection-union test). Data that do neither are
inconclusive.

Both hold for exchangeable repeats: taken on the same machine in the same state. What differs between two days (a
warmer room, another neighbour) is not chance, and no test tells it from a slower program; the minimum effect is there
for that.

Source: R. L. Berger and J. C. Hsu, Bioequivalence trials, intersection-union tests and equivalence confidence sets,
Statistical Science 11 (1996), 283-319.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.analysis.comparison import compare
from dlperf_sdk.analysis.rank_test import (
    Shift,
    hodges_lehmann_shift,
    mann_whitney_p,
    repeats_to_detect,
    repeats_to_reach,
)
from dlperf_sdk.analysis.significance import holm_adjusted
from dlperf_sdk.errors import AnalysisError, NotComparable
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.run_spec import RunSpec

REGRESSION, IMPROVEMENT, UNCHANGED, NOT_SLOWER, INCONCLUSIVE = (
    "regression",
    "improvement",
    "unchanged",
    "not-slower",
    "inconclusive",
)
BROKEN, MENDED, VANISHED, NEW, REFUSED, UNMEASURED = (
    "broken",
    "mended",
    "vanished",
    "new",
    "refused",
    "unmeasured",
)
FAILING = (REGRESSION, BROKEN)
"""Outcomes that close the gate."""
DECIDED = (*FAILING, IMPROVEMENT, UNCHANGED, NOT_SLOWER, INCONCLUSIVE, MENDED)
"""Outcomes that say something of the candidate. A gate without any has not been passed."""

_LOOSE = ("framework", "model", "topology", "precision")
"""Fields that match in two specs of one intended case whose keys differ."""


@frozen
class Decision:
    """One case."""

    name: str
    outcome: str
    detail: str
    """The reason, in a sentence."""
    shift: Shift | None = None
    """The candidate's throughput over the baseline's."""
    p: float | None = None
    """The p-value that it is slower, adjusted for the number of cases."""
    baseline: str | None = None
    candidate: str | None = None
    """The runs that were compared."""
    required_repeats: int | None = None
    """Repeats per side that should decide an inconclusive case; None where nothing can be planned for."""


@frozen
class Gate:
    """All cases."""

    decisions: tuple[Decision, ...]
    minimum_effect: float
    level: float

    @property
    def exit_code(self) -> int:
        """Return the exit code of `dlperf gate`.

        1 with a regression or a case that works no more, else 2 where specs were refused or nothing compared, else 6
        with an inconclusive case, else 0.
        """
        outcomes = {decision.outcome for decision in self.decisions}
        if outcomes & set(FAILING):
            return 1
        if REFUSED in outcomes or not outcomes & set(DECIDED):
            return 2
        return 6 if INCONCLUSIVE in outcomes else 0

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "minimum_effect": self.minimum_effect,
            "level": self.level,
            "exit_code": self.exit_code,
            "decisions": [attrs.asdict(each) for each in self.decisions],
        }


def gate(
    baseline: Iterable[Result],
    candidate: Iterable[Result],
    *,
    minimum_effect: float = 0.02,
    level: float = 0.05,
) -> Gate:
    """Decide for each case of two sets of results. Of several results of one case, the newest counts.

    A regression is a case that is slower by at least `minimum_effect` in the Hodges-Lehmann ratio, and whose one-sided
    exact rank-sum test, adjusted by Holm's procedure for all cases compared, is significant at `level`. A case is
    unchanged if two one-sided tests at `level` show that its ratio is within 1 ± `minimum_effect`, and not slower if
    only the lower of them does.

    Raises:
        AnalysisError: a level or an effect that is none, or one side has no results.
    """
    if not 0 < level < 0.5 or not 0 <= minimum_effect < 1:
        raise AnalysisError(
            f"A level of {level} and a minimum effect of {minimum_effect}: both are fractions of 1, the level one "
            "below 0.5."
        )
    before, after = _newest(baseline), _newest(candidate)
    if not before or not after:
        raise AnalysisError(f"The {'candidate' if before else 'baseline'} has no results.")
    paired = {key: _pair(before[key], after[key]) for key in before if key in after}
    pairs = {
        key: (before[key].spec.label, *pair) for key, pair in paired.items() if not isinstance(pair, Decision)
    }
    decisions = {key: pair for key, pair in paired.items() if isinstance(pair, Decision)}
    decisions |= decide_cases(pairs, minimum_effect=minimum_effect, level=level)
    unmatched = _unmatched(before, after)
    ordered = [decisions[key] for key in before if key in decisions]
    return Gate((*ordered, *unmatched), minimum_effect, level)


def decide_cases(
    pairs: Mapping[str, tuple[str, Case, Case]], *, minimum_effect: float, level: float
) -> dict[str, Decision]:
    """Decide comparable cases together: each a label, the case of the baseline and that of the candidate."""
    slower = [mann_whitney_p(new.repeats, old.repeats, "less") for _, old, new in pairs.values()]
    faster = [mann_whitney_p(old.repeats, new.repeats, "less") for _, old, new in pairs.values()]
    p_values = zip(holm_adjusted(slower), holm_adjusted(faster), strict=True)
    return {
        key: _decide(*pair, p=p, comparisons=len(pairs), minimum_effect=minimum_effect, level=level)
        for (key, pair), p in zip(pairs.items(), p_values, strict=True)
    }


def _newest(results: Iterable[Result]) -> dict[str, Result]:
    found: dict[str, Result] = {}
    for result in results:
        key = _identity(result.spec)
        if key not in found or found[key].started_at <= result.started_at:
            found[key] = result
    return found


def _identity(spec: RunSpec) -> str:
    """Return what identifies a case: workload, factors and the data source."""
    plain = spec.to_dict()
    names = [field.name for field in attrs.fields(RunSpec) if field.metadata["role"] != "context"]
    return json.dumps({name: plain[name] for name in names} | {"data": spec.data.source}, sort_keys=True)


def _pair(old: Result, new: Result) -> tuple[Case, Case] | Decision:
    """Return the two as comparable cases, or the decision that they are not."""
    name = old.spec.label
    sides: list[Case | str] = []
    for result in (old, new):
        try:
            sides.append(Case.of(result))
        except AnalysisError as error:
            sides.append(str(error))
    first, second = sides
    made = partial(Decision, name, baseline=old.id, candidate=new.id)
    if isinstance(first, str) and isinstance(second, str):
        return made(UNMEASURED, f"Neither side has a number that stands. {second}")
    if isinstance(second, str):
        return made(BROKEN, second)
    if isinstance(first, str):
        return made(MENDED, f"It works now. Before: {first}")
    unlike = _find_difference(old.spec, new.spec, second, first)
    return (first, second) if unlike is None else made(REFUSED, unlike)


def _find_difference(before: RunSpec, after: RunSpec, new: Case, old: Case) -> str | None:
    """Return why two runs of equal specs are not the same case; None if they are."""
    try:
        found = compare(new, old)
    except NotComparable as error:
        return str(error)
    if found.factors:
        return f"They were not run alike: {'; '.join(found.factors)}."
    one, other = _window(before), _window(after)
    return None if one == other else f"They were not measured alike: {one} against {other}."


def _window(spec: RunSpec) -> str:
    """Describe the steps that a repeat measures: first steps are slower than later ones."""
    protocol = spec.resolved_protocol()
    before = protocol.canonical_steps + protocol.warmup
    return f"{protocol.steps} steps behind {before}"


def _decide(
    name: str,
    old: Case,
    new: Case,
    *,
    p: tuple[float, float],
    comparisons: int,
    minimum_effect: float,
    level: float,
) -> Decision:
    """Decide a case from the p-values `p` that it is slower and that it is faster."""
    shift = hodges_lehmann_shift(new.repeats, old.repeats, 2 * level)
    low, high = 1 - minimum_effect, 1 + minimum_effect
    above_low = mann_whitney_p(new.repeats, old.repeats, "greater", low) <= level
    below_high = mann_whitney_p(new.repeats, old.repeats, "less", high) <= level
    percent, limit = 100 * (shift.ratio - 1), f"{100 * minimum_effect:g} %"
    change = f"{abs(percent):.1f} % {'slower' if percent < 0 else 'faster'}"
    evidence = f"{_interval(shift, level)}; {{}}{len(old.repeats)} against {len(new.repeats)} repeats"
    slower, faster = (f"p {value:.2g}, " for value in p)
    required = None
    if shift.ratio <= low and p[0] <= level:
        outcome, detail = REGRESSION, f"{change} ({evidence.format(slower)})."
    elif shift.ratio >= high and p[1] <= level:
        outcome, detail = IMPROVEMENT, f"{change} ({evidence.format(faster)})."
    elif above_low and below_high:
        outcome, detail = UNCHANGED, f"{change}; a change of {limit} is ruled out ({evidence.format('')})."
    elif above_low:
        outcome, detail = NOT_SLOWER, f"{change}; a slowdown of {limit} is ruled out ({evidence.format('')})."
    else:
        required = _required_repeats(old, new, minimum_effect, level / comparisons)
        detail = (
            f"{change}; a slowdown of {limit} is neither shown nor ruled out ({evidence.format(slower)})."
        )
        if required is None:
            detail += " No number of repeats rules out a slowdown of 0 %: set a minimum effect."
        else:
            detail += f" Measure at least {required} repeats per side."
        outcome = INCONCLUSIVE
    return Decision(name, outcome, detail, shift, p[0], old.name, new.name, required)


def _interval(shift: Shift, level: float) -> str:
    if shift.low is None or shift.high is None:
        return "no interval from so few repeats"
    ends = f"{100 * (shift.low - 1):+.1f} to {100 * (shift.high - 1):+.1f} %"
    return f"{100 * (1 - 2 * level):g} % interval {ends}"


def _required_repeats(old: Case, new: Case, effect: float, level: float) -> int | None:
    """Return the repeats per side that should decide a case; None where the effect is 0.

    Where so many were taken already, the ratio lies close to a limit: twice as many, then.
    """
    if effect == 0:
        return None
    planned = repeats_to_detect(old.repeats, new.repeats, effect, level) or repeats_to_reach(level)
    taken = min(len(old.repeats), len(new.repeats))
    return planned if planned > taken else 2 * taken


def _unmatched(before: dict[str, Result], after: dict[str, Result]) -> list[Decision]:
    """Decide the cases of one side only; two that were meant to be the same and differ are refused."""
    gone = [result for key, result in before.items() if key not in after]
    added = [result for key, result in after.items() if key not in before]
    found: list[Decision] = []
    for old in gone:
        alike = [new for new in added if _loosely(new.spec) == _loosely(old.spec)]
        rivals = [each for each in gone if _loosely(each.spec) == _loosely(old.spec)]
        if len(alike) == 1 and len(rivals) == 1:
            added.remove(alike[0])
            said = "; ".join(_differences(old.spec, alike[0].spec))
            detail = f"The specs differ, so the numbers mean different things: {said}."
            found.append(Decision(old.spec.label, REFUSED, detail, baseline=old.id, candidate=alike[0].id))
        else:
            found.append(
                Decision(old.spec.label, VANISHED, "The candidate does not have this case.", baseline=old.id)
            )
    found += [
        Decision(new.spec.label, NEW, "The baseline does not have this case.", candidate=new.id)
        for new in added
    ]
    return found


def _loosely(spec: RunSpec) -> Sequence[Any]:
    return tuple(getattr(spec, name) for name in _LOOSE)


def _differences(old: RunSpec, new: RunSpec) -> list[str]:
    one, other = json.loads(_identity(old)), json.loads(_identity(new))
    return [f"{name} {one[name]} against {other[name]}" for name in one if one[name] != other[name]]
