"""Rank frameworks by throughput, each ranking among cases of equal workload, precision, topology, data and hardware."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen

from dlperf_sdk.analysis.case import Case, cases, key
from dlperf_sdk.analysis.comparison import Comparison, compare
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.strategy import STRATEGIES

_EQUAL = ("data", "device", "hardware", "precision", "topology")
"""Facts beside the workload that all cases of a ranking share."""
_RANKED = ("framework", "implementation")
"""Facts that cases are ranked by: the first of which there are two values."""


@frozen
class Excluded:
    """Cases of the same model, batch size and topology that are not comparable with a ranking's entries."""

    cases: tuple[Case, ...]
    """The fastest of each framework, the fastest first."""
    differences: tuple[tuple[str, Any], ...]
    """The facts in which they differ from the entries, with their values; None if they do not state one."""


@frozen
class Ranking:
    """The fastest case of each framework, the fastest first."""

    factor: str
    """The fact that is ranked: `framework`, or `implementation` where there is one framework only."""
    entries: tuple[Case, ...]
    cases: tuple[Case, ...]
    """All comparable cases, of which the entries are the fastest of each framework."""
    facts: dict[str, Any]
    """The facts that the entries share, and that make their throughputs comparable."""
    excluded: tuple[Excluded, ...]

    @property
    def comparison(self) -> Comparison:
        """The comparison of the fastest case with the second; its `reasons` name a different estimator or layout."""
        return compare(self.entries[0], self.entries[1], footnoted=True)


def rankings(sources: Iterable[Case | Result | PublishedFigure]) -> tuple[Ranking, ...]:
    """Rank frameworks (of one framework, implementations) wherever two of them have comparable cases.

    The rankings of most frameworks on most devices come first.

    Raises:
        AnalysisError: a source has no throughput.
    """
    all_cases = cases(sources)
    factor = next(
        (name for name in _RANKED if len({key(case.facts.get(name)) for case in all_cases}) > 1), None
    )
    if factor is None:
        return ()
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in all_cases:
        groups.setdefault(_values(_select_shared_facts(case), case.unit), []).append(case)
    fastest = [_select_fastest(group, factor) for group in groups.values()]
    by_question: dict[tuple[str, ...], list[list[Case]]] = {}
    for entries in fastest:
        by_question.setdefault(_comparison_key(entries[0]), []).append(entries)
    ranked = [
        Ranking(
            factor,
            tuple(entries),
            tuple(group),
            _select_shared_facts(entries[0]),
            _list_excluded(entries, by_question),
        )
        for entries, group in zip(fastest, groups.values(), strict=True)
        if len(entries) > 1
    ]
    return tuple(sorted(ranked, key=_order))


def _select_shared_facts(case: Case) -> dict[str, Any]:
    facts = {name: case.facts[name] for name, role in case.roles.items() if role == "workload"}
    facts |= {name: case.facts[name] for name in _EQUAL if name in case.facts}
    facts |= {"topology": str(case.topology), "batch_size": case.batch_size}
    strategy = str(case.facts.get("strategy"))
    if case.topology.devices > 1 and strategy in STRATEGIES and not STRATEGIES[strategy].keeps_replicas_equal:
        facts["strategy"] = strategy
    return facts


def _values(facts: dict[str, Any], unit: str) -> tuple[str, ...]:
    return (unit, *(f"{name}={key(facts[name])}" for name in sorted(facts)))


def _comparison_key(case: Case) -> tuple[str, ...]:
    return _values(
        {"model": case.facts.get("model"), "batch": case.batch_size, "topology": str(case.topology)},
        case.unit,
    )


def _select_fastest(group: Sequence[Case], factor: str) -> list[Case]:
    fastest: dict[str, Case] = {}
    for case in sorted(group, key=lambda case: -case.throughput):
        fastest.setdefault(key(case.facts.get(factor)), case)
    return list(fastest.values())


def _list_excluded(
    entries: Sequence[Case], by_question: dict[tuple[str, ...], list[list[Case]]]
) -> tuple[Excluded, ...]:
    facts = _select_shared_facts(entries[0])
    excluded = []
    for other_entries in by_question[_comparison_key(entries[0])]:
        if other_entries is not entries:
            other_facts = _select_shared_facts(other_entries[0])
            names = sorted(
                name for name in {*facts, *other_facts} if key(facts.get(name)) != key(other_facts.get(name))
            )
            excluded.append(
                Excluded(tuple(other_entries), tuple((name, other_facts.get(name)) for name in names))
            )
    return tuple(sorted(excluded, key=lambda group: -group.cases[0].throughput))


def _order(ranking: Ranking) -> tuple[Any, ...]:
    first = ranking.entries[0]
    return (-first.topology.devices, -len(ranking.entries), key(ranking.facts.get("model")), first.batch_size)
