"""The gate: matches the cases of a baseline and a candidate, and decides for each whether it became slower.

The two sides are separate runs (`gate`), or were interleaved in one run (`gate_interleaved`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

import attrs

from dlperf_sdk.analysis.case import Case, differing_facts
from dlperf_sdk.analysis.comparison import ESSENTIAL_FACTS, Comparison, compare
from dlperf_sdk.analysis.gate_decision import (
    INTERLEAVED,
    SEPARATE_REPEATS,
    SEPARATE_RUNS,
    Pairing,
    decide_cases,
)
from dlperf_sdk.analysis.gate_outcome import (
    BROKEN,
    MENDED,
    MISSING,
    NEW,
    REFUSED,
    UNFINISHED,
    UNMEASURED,
    VANISHED,
    Decision,
    Gate,
)
from dlperf_sdk.analysis.rank_test import RankSum, SignedRank, repeats_to_reach
from dlperf_sdk.errors import AnalysisError, NotComparable, UnknownName
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.identity import identity, window
from dlperf_sdk.spec.run_spec import RunSpec

_LOOSE = ("framework", "model", "topology", "precision")
"""Fields that match in two specs of one intended case whose keys differ."""


def gate(
    baseline: Iterable[Result],
    candidate: Iterable[Result],
    *,
    minimum_effect: float = 0.02,
    level: float = 0.05,
    expect_missing: Sequence[str] = (),
    unreadable: Sequence[str] = (),
) -> Gate:
    """Decide for each case of two sets of results from separate runs whether it became slower.

    A regression is a case that is slower by at least `minimum_effect` in the Hodges-Lehmann ratio, and whose one-sided
    exact rank-sum test, adjusted by Holm's procedure for all cases compared, is significant at `level`. A case is not
    slower if a one-sided test at `level` shows that its ratio is above 1 - `minimum_effect`. It is unchanged if a
    second one shows that the ratio is also below 1 + `minimum_effect`.

    The units of the test are the medians of runs. On each side, only runs with the versions and settings of its newest
    run count. If a side has too few of these for a significant test, the units are the repeats of both newest runs.

    Args:
        baseline: The results before the change; several runs of a case are allowed, copies of a run count once.
        candidate: The results after the change; several runs of a case are allowed, copies of a run count once.
        minimum_effect: The smallest slowdown that counts, as a fraction from 0 to below 1.
        level: The probability of a false alarm in at least one case, above 0 and below 0.5.
        expect_missing: Names of cases that may be missing on a side, with `*` for any text. Any other missing case
            makes the gate incomplete.
        unreadable: Reasons why results of either side could not be read; they make the gate incomplete.

    Returns:
        A decision for each case of either side, also for those that cannot be compared. The cases of both sides come
        first, in the order of the baseline, then those of the baseline only and those of the candidate only.

    Raises:
        AnalysisError: `level` or `minimum_effect` is out of range, or a side has no results.
        UnknownName: A name in `expect_missing` matches no case.
    """
    _check_limits(minimum_effect, level)
    before, after = _newest_first(baseline), _newest_first(candidate)
    if not before or not after:
        raise AnalysisError(f"The {'candidate' if before else 'baseline'} has no results.")
    matched = {
        key: _match_runs(before[key], after[key], repeats_to_reach(level)) for key in before if key in after
    }
    decisions = _decide(matched, minimum_effect, level)
    newest_before, newest_after = ({key: runs[0] for key, runs in side.items()} for side in (before, after))
    all_decisions = _mark_expected((*decisions, *_unmatched(newest_before, newest_after)), expect_missing)
    return Gate(all_decisions, minimum_effect, level, tuple(unreadable))


def gate_interleaved(
    pairs: Iterable[tuple[Result, Result]],
    *,
    minimum_effect: float = 0.02,
    level: float = 0.05,
    expect_missing: Sequence[str] = (),
    unfinished: Sequence[str] = (),
) -> Gate:
    """Decide for each case of an interleaved run whether the candidate is slower.

    The n-th repeats of both sides ran one after the other, in random order. A regression is a case that is slower by
    at least `minimum_effect` in the Hodges-Lehmann ratio of its pairs, and whose one-sided exact signed-rank test,
    adjusted by Holm's procedure for all cases compared, is significant at `level`. A case is not slower if a one-sided
    test at `level` shows that its ratio is above 1 - `minimum_effect`. It is unchanged if a second one shows that the
    ratio is also below 1 + `minimum_effect`.

    Args:
        pairs: For each case the result of the baseline and that of the candidate, with equal numbers of repeats.
        minimum_effect: The smallest slowdown that counts, as a fraction from 0 to below 1.
        level: The probability of a false alarm in at least one case, above 0 and below 0.5.
        expect_missing: Names of cases that may be missing, with `*` for any text. Any other missing case makes the
            gate incomplete.
        unfinished: Names of cases whose pairs are not all measured yet; each becomes a decision `unfinished`.

    Returns:
        A decision for each pair, in the given order, then one for each unfinished case.

    Raises:
        AnalysisError: `level` or `minimum_effect` is out of range, or there are no pairs.
        UnknownName: A name in `expect_missing` matches no case.
    """
    _check_limits(minimum_effect, level)
    matched = {str(number): _match_pairs(*pair) for number, pair in enumerate(pairs)}
    if not matched:
        raise AnalysisError("No case of the interleaved run is finished.")
    waiting = (Decision(name, UNFINISHED, "Its pairs are not all measured.") for name in unfinished)
    all_decisions = _mark_expected((*_decide(matched, minimum_effect, level), *waiting), expect_missing)
    return Gate(all_decisions, minimum_effect, level)


def _mark_expected(decisions: Sequence[Decision], patterns: Sequence[str]) -> tuple[Decision, ...]:
    """Mark the missing cases that `patterns` name."""
    names = [decision.name for decision in decisions]
    for pattern in patterns:
        if not any(_is_named(name, pattern) for name in names):
            raise UnknownName("case of this gate", pattern, names)
    return tuple(
        attrs.evolve(decision, is_expected=True)
        if decision.outcome in MISSING and any(_is_named(decision.name, pattern) for pattern in patterns)
        else decision
        for decision in decisions
    )


def _is_named(name: str, pattern: str) -> bool:
    # An option's value may have brackets, which mean a set of characters in a pattern.
    return name == pattern or fnmatchcase(name, pattern)


def _check_limits(minimum_effect: float, level: float) -> None:
    if not 0 < level < 0.5 or not 0 <= minimum_effect < 1:
        raise AnalysisError(
            f"A level of {level} and a minimum effect of {minimum_effect}: both are fractions of 1, the level one "
            "below 0.5."
        )


def _decide(
    matched: Mapping[str, Pairing | Decision], minimum_effect: float, level: float
) -> tuple[Decision, ...]:
    """Decide what can be compared, in the order of `matched`."""
    pairings = {key: case for key, case in matched.items() if isinstance(case, Pairing)}
    decisions = decide_cases(pairings, minimum_effect=minimum_effect, level=level)
    return tuple(case if isinstance(case, Decision) else decisions[key] for key, case in matched.items())


def _newest_first(results: Iterable[Result]) -> dict[str, list[Result]]:
    """Group the results by case; copies of a run are one run."""
    runs: dict[str, list[Result]] = {}
    for result in results:
        repeated = runs.setdefault(identity(result.spec), [])
        if not any(result.id == run.id and result.started_at == run.started_at for run in repeated):
            repeated.insert(0, result)
    for repeated in runs.values():
        repeated.sort(key=lambda result: result.started_at, reverse=True)
    return runs


def _match_runs(before: list[Result], after: list[Result], minimum: int) -> Pairing | Decision:
    """Match the runs of a case; they are the units where each side has the `minimum` that can be significant."""
    name = before[0].spec.label
    comparison = _compare(name, before[0], after[0])
    if isinstance(comparison, Decision):
        return comparison
    rival, first = comparison.a, comparison.b
    old, new = ([case.throughput for case in _select_comparable(side)] for side in (before, after))
    if min(len(old), len(new)) >= minimum:
        test, basis = RankSum(new, old, "run"), SEPARATE_RUNS
    else:
        test, basis = RankSum(rival.repeats, first.repeats), SEPARATE_REPEATS
    return Pairing(name, first, rival, test, basis, comparison.footnotes)


def _select_comparable(runs: list[Result]) -> list[Case]:
    """Return the valid runs with the facts, packages and SDK of the newest, which is the first."""
    newest, comparable = runs[0], []
    for run in runs:
        try:
            case = Case.from_source(run)
        except AnalysisError:
            continue
        is_same_environment = run.environment == newest.environment and run.sdk_version == newest.sdk_version
        if is_same_environment and not differing_facts((Case.from_source(newest), case)):
            comparable.append(case)
    return comparable


def _match_pairs(old: Result, new: Result) -> Pairing | Decision:
    """Match the repeats of two interleaved runs; the gate compares the factors and data in which they differ."""
    before, after = old.spec, new.spec
    name = after.label if before.label == after.label else f"{after.label} against {before.label}"
    factors = [
        field.name
        for field in attrs.fields(RunSpec)
        if (field.metadata["role"] == "factor" or field.name in ESSENTIAL_FACTS)
        and getattr(before, field.name) != getattr(after, field.name)
    ]
    comparison = _compare(name, old, new, factors)
    if isinstance(comparison, Decision):
        # Both sides were requested now: a baseline that does not run is a mistake, not an improvement.
        return attrs.evolve(comparison, outcome=REFUSED) if comparison.outcome == MENDED else comparison
    rival, first = comparison.a, comparison.b
    # Both sides have the same number of repeats: `make_interleaved` refuses others.
    ratios = [b / a for a, b in zip(first.repeats, rival.repeats, strict=True)]
    differences = (*comparison.factors, *comparison.footnotes)
    return Pairing(name, first, rival, SignedRank(ratios), INTERLEAVED, differences)


def _compare(name: str, old: Result, new: Result, factors: Sequence[str] = ()) -> Comparison | Decision:
    """Compare the candidate `new` with `old`, or decide that it cannot be; `factors` are the factors compared."""
    sides: list[Case | str] = []
    for result in (old, new):
        try:
            sides.append(Case.from_source(result))
        except AnalysisError as error:
            sides.append(str(error))
    first, rival = sides
    decide = partial(Decision, name, baseline=old.id, candidate=new.id)
    if isinstance(rival, str):
        works = not isinstance(first, str)
        return (
            decide(BROKEN, rival)
            if works
            else decide(UNMEASURED, f"Neither side has a valid number. {rival}")
        )
    if isinstance(first, str):
        return decide(MENDED, f"The candidate works, and the baseline does not: {first}")
    old_window, new_window = window(old.spec), window(new.spec)
    if old_window != new_window:
        return decide(REFUSED, f"They were not measured alike: {old_window} against {new_window}.")
    try:
        comparison = compare(rival, first, factors=factors)
    except NotComparable as error:
        return decide(REFUSED, str(error))
    # A requested difference may change facts that only workers report.
    unexpected = "" if factors else "; ".join(comparison.factors)
    return decide(REFUSED, f"They were not run alike: {unexpected}.") if unexpected else comparison


def _unmatched(before: dict[str, Result], after: dict[str, Result]) -> list[Decision]:
    """Decide the cases of one side only; two that were meant to be the same and differ are refused."""
    removed = [result for key, result in before.items() if key not in after]
    added = [result for key, result in after.items() if key not in before]
    decisions: list[Decision] = []
    for old in removed:
        comparable = [new for new in added if _loose_identity(new.spec) == _loose_identity(old.spec)]
        rivals = [rival for rival in removed if _loose_identity(rival.spec) == _loose_identity(old.spec)]
        if len(comparable) == 1 and len(rivals) == 1:
            added.remove(comparable[0])
            differences = "; ".join(_differences(old.spec, comparable[0].spec))
            detail = f"The specs differ, so the numbers mean different things: {differences}."
            decisions.append(
                Decision(old.spec.label, REFUSED, detail, baseline=old.id, candidate=comparable[0].id)
            )
        else:
            decisions.append(
                Decision(old.spec.label, VANISHED, "The candidate does not have this case.", baseline=old.id)
            )
    decisions += [
        Decision(new.spec.label, NEW, "The baseline does not have this case.", candidate=new.id)
        for new in added
    ]
    return decisions


def _loose_identity(spec: RunSpec) -> Sequence[Any]:
    return tuple(getattr(spec, name) for name in _LOOSE)


def _differences(old: RunSpec, new: RunSpec) -> list[str]:
    first, rival = json.loads(identity(old)), json.loads(identity(new))
    return [f"{name} {first[name]} against {rival[name]}" for name in first if first[name] != rival[name]]
