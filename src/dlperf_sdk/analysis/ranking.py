"""Rankings of frameworks by throughput, each of cases with equal workload, precision, topology, data and hardware."""

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
"""Facts besides the workload that all cases of a ranking share."""
_RANKED = ("framework", "implementation")
"""Facts that cases are ranked by. The first one that has two values is used."""


@frozen
class Excluded:
    """Cases with the model, batch size and topology of a ranking that are not comparable with its entries."""

    cases: tuple[Case, ...]
    """The fastest case of each framework, the fastest first."""
    differences: tuple[tuple[str, Any], ...]
    """Name of each fact in which the cases differ from the entries, with their value; None if they do not state it."""


@frozen
class Ranking:
    """The fastest case of each framework, the fastest first."""

    factor: str
    """The fact that is ranked: `framework`, or `implementation` if all cases have the same framework."""
    entries: tuple[Case, ...]
    """The fastest case of each value of `factor`, the fastest first; at least two, or one if it is `unrivaled`."""
    cases: tuple[Case, ...]
    """All comparable cases, including the entries."""
    facts: dict[str, Any]
    """Facts that the entries share, which make their throughputs comparable."""
    excluded: tuple[Excluded, ...]
    """Groups of cases that are not comparable with the entries."""
    unstated: tuple[str, ...] = ()
    """Facts of the workload that no case of the ranking states, though another case of its model does."""

    @property
    def comparison(self) -> Comparison:
        """Comparison of the fastest case with the second fastest one.

        If the two cases differ in a fact such as the estimator or the layout, they are compared all the same, and the
        comparison's `reasons` name the difference.

        Raises:
            IndexError: There is only one entry.
        """
        return compare(self.entries[0], self.entries[1], footnoted=True)


def rankings(sources: Iterable[Case | Result | PublishedFigure]) -> tuple[Ranking, ...]:
    """Return a ranking for each group of comparable cases of at least two frameworks.

    The cases of a group have equal workload, precision, topology, data and hardware. If all cases have the same
    framework, its implementations are ranked instead. The rankings are in descending order of the number of devices,
    then of the number of entries. The result is empty if nothing can be ranked.

    Args:
        sources: The results, published figures or cases, in any order.

    Raises:
        AnalysisError: `Case.from_source` refuses a source.
    """
    return tuple(ranking for ranking in _group(sources) if len(ranking.entries) > 1)


def unrivaled(sources: Iterable[Case | Result | PublishedFigure]) -> tuple[Ranking, ...]:
    """Return a ranking with a single entry for each group of comparable cases that has one framework only.

    These are the groups that `rankings` leaves out. If all cases have the same framework, they are the groups with one
    implementation only. The rankings with most devices come first. The result is empty if all cases have the same
    framework and implementation.

    Args:
        sources: The results, published figures or cases, in any order.

    Raises:
        AnalysisError: `Case.from_source` refuses a source.
    """
    return tuple(ranking for ranking in _group(sources) if len(ranking.entries) == 1)


def _group(sources: Iterable[Case | Result | PublishedFigure]) -> list[Ranking]:
    all_cases = cases(sources)
    factor = next(
        (name for name in _RANKED if len({key(case.facts.get(name)) for case in all_cases}) > 1), None
    )
    if factor is None:
        return []
    groups: dict[tuple[str, ...], list[Case]] = {}
    for case in all_cases:
        groups.setdefault(_values(_select_shared_facts(case), case.unit), []).append(case)
    fastest = [_select_fastest(group, factor) for group in groups.values()]
    by_question: dict[tuple[str, ...], list[list[Case]]] = {}
    for entries in fastest:
        by_question.setdefault(_comparison_key(entries[0]), []).append(entries)
    stated: dict[str, set[str]] = {}
    for case in all_cases:
        names = {name for name, role in case.roles.items() if role == "workload"}
        stated.setdefault(key(case.facts.get("model")), set()).update(names)
    grouped = [
        Ranking(
            factor,
            tuple(entries),
            tuple(group),
            facts := _select_shared_facts(entries[0]),
            _list_excluded(entries, by_question),
            tuple(sorted(stated[key(facts.get("model"))] - set(facts))),
        )
        for entries, group in zip(fastest, groups.values(), strict=True)
    ]
    return sorted(grouped, key=_order)


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
