"""The gate: decide case by case whether anything became slower, by significance and by a minimum effect.

What is stated: where nothing changed, the gate as a whole (all its cases together) raises a false alarm in at most
`level` of all comparisons, provided that the repeats of both sides are exchangeable: taken on the same machine in the
same state. What differs between two days (a warmer room, another neighbour) is not chance, and no test tells it from a
slower program; the minimum effect is there for that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
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
    repeats_for_power,
    repeats_needed,
    smallest_p,
)
from dlperf_sdk.analysis.significance import holm_adjusted
from dlperf_sdk.errors import AnalysisError, NotComparable
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.run_spec import RunSpec

REGRESSION, IMPROVEMENT, UNCHANGED, INCONCLUSIVE = "regression", "improvement", "unchanged", "inconclusive"
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
DECIDED = (*FAILING, IMPROVEMENT, UNCHANGED, INCONCLUSIVE, MENDED)
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


@frozen
class Gate:
    """All cases."""

    decisions: tuple[Decision, ...]
    minimum_effect: float
    level: float

    @property
    def exit_code(self) -> int:
        """1 with a regression or a case that works no more, 2 where specs were refused or nothing compared, else 0."""
        outcomes = {each.outcome for each in self.decisions}
        if outcomes & set(FAILING):
            return 1
        return 2 if REFUSED in outcomes or not outcomes & set(DECIDED) else 0

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
    exact rank-sum test, adjusted by Holm's procedure for all cases compared, is significant at `level`.

    Raises:
        AnalysisError: a level or an effect that is none, or one side has no results.
    """
    if not 0 < level < 1 or not 0 <= minimum_effect < 1:
        raise AnalysisError(
            f"A level of {level} and a minimum effect of {minimum_effect}: both are fractions of 1."
        )
    before, after = _newest(baseline), _newest(candidate)
    if not before or not after:
        raise AnalysisError(f"The {'candidate' if before else 'baseline'} has no results.")
    decisions: dict[str, Decision] = {}
    pairs: dict[str, tuple[Case, Case]] = {}
    for key in (each for each in before if each in after):
        found = _pair(before[key], after[key])
        if isinstance(found, Decision):
            decisions[key] = found
        else:
            pairs[key] = found
    slower = [mann_whitney_p(new.repeats, old.repeats, "less") for old, new in pairs.values()]
    faster = [mann_whitney_p(old.repeats, new.repeats, "less") for old, new in pairs.values()]
    p_values = zip(holm_adjusted(slower), holm_adjusted(faster), strict=True)
    for (key, (old, new)), p in zip(pairs.items(), p_values, strict=True):
        decisions[key] = _decide(
            before[key].spec.label,
            old,
            new,
            p=p,
            comparisons=len(pairs),
            minimum_effect=minimum_effect,
            level=level,
        )
    unmatched = _unmatched(before, after)
    ordered = [decisions[key] for key in before if key in decisions]
    return Gate((*ordered, *unmatched), minimum_effect, level)


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
    found = hodges_lehmann_shift(new.repeats, old.repeats)
    percent = 100 * (found.ratio - 1)
    how = f"{abs(percent):.1f} % {'slower' if percent < 0 else 'faster'}"
    interval = (
        "no interval from so few repeats"
        if found.low is None or found.high is None
        else f"95 % interval {100 * (found.low - 1):+.1f} to {100 * (found.high - 1):+.1f} %"
    )
    counts = f"{len(old.repeats)} against {len(new.repeats)} repeats"
    large = found.ratio <= 1 - minimum_effect, found.ratio >= 1 + minimum_effect
    if large[0] and p[0] <= level:
        outcome, detail = REGRESSION, f"{how} ({interval}; p {p[0]:.2g}, {counts})."
    elif large[1] and p[1] <= level:
        outcome, detail = IMPROVEMENT, f"{how} ({interval}; p {p[1]:.2g}, {counts})."
    elif any(large):
        outcome = INCONCLUSIVE
        detail = f"{how}, which may be chance ({interval}; p {p[0] if large[0] else p[1]:.2g}, {counts})."
        if comparisons * smallest_p(len(old.repeats), len(new.repeats), "less") > level:
            needed = repeats_needed(level / comparisons)
            detail += f" So few repeats cannot be significant: measure at least {needed} per side."
        else:
            sides = (new.repeats, old.repeats) if large[0] else (old.repeats, new.repeats)
            wanted = repeats_for_power(*sides, level / comparisons)
            if wanted is not None and wanted > max(len(old.repeats), len(new.repeats)):
                detail += f" {wanted} repeats per side would give 80 % power."
    else:
        outcome, detail = UNCHANGED, f"{how}, less than {100 * minimum_effect:g} % ({interval}; {counts})."
    return Decision(name, outcome, detail, found, p[0], old.name, new.name)


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
