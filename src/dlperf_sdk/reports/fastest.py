"""The fastest framework of each topology, batch size and precision, as a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from dlperf_sdk.analysis.case import Case, key
from dlperf_sdk.analysis.ranking import Ranking
from dlperf_sdk.reports.blocks import Cell, Column, Table
from dlperf_sdk.reports.exclusions import format_excluded
from dlperf_sdk.reports.leads import (
    RULE,
    describe_compiler,
    lead,
)
from dlperf_sdk.reports.numbers import common_scale, format_count, quantity
from dlperf_sdk.reports.ranked_cases import describe_implementation, list_settings
from dlperf_sdk.reports.series import format_stated, labels

TITLE = "Fastest framework"
LEDE = (
    "4n8d is 4 nodes with 8 devices each; batch sizes are per device. A range in a ratio is its 95 % interval. "
    f"{RULE}"
)
NAMED = ("topology", "model", "batch_size", "precision")
"""Facts with their own column. Other facts are named if rankings differ in them."""


def fastest_table(rankings: Sequence[Ranking]) -> Table:
    """Return a table with a row per ranking.

    A row has the facts of the ranking, the fastest case, its throughput and its lead over the second, the other
    cases, and the cases that are not comparable. The rows are in the order of the rankings. Rankings of the same
    topology, model, batch size and precision are together, the one with the highest throughput first.
    """
    questions = list(dict.fromkeys(map(_named_facts, rankings)))
    rankings = sorted(
        rankings,
        key=lambda ranking: (questions.index(_named_facts(ranking)), -ranking.entries[0].throughput),
    )
    equal = [describe_shared_facts(ranking, rankings) for ranking in rankings]
    rows: list[tuple[Cell | str, ...]] = [
        (
            *_named_facts(ranking),
            *([facts] if any(equal) else []),
            _name_of_fastest(ranking) + describe_implementation(ranking.entries[0], rankings),
            quantity(ranking.entries[0].throughput, ranking.entries[0].unit),
            lead(ranking),
            _list_others(ranking, rankings),
            format_excluded(ranking),
        )
        for ranking, facts in zip(rankings, equal, strict=True)
    ]
    columns = (
        Column("topology", whole=True, key=True),
        Column("model", whole=True, key=True),
        Column("batch", right=True, key=True),
        Column("precision", whole=True, key=True),
        *([Column("settings", key=True)] if any(equal) else []),
        Column("fastest"),
        Column("throughput", right=True),
        Column("lead"),
        Column("the others"),
        Column("not comparable"),
    )
    return Table(
        columns, tuple(rows), f"{format_count(len(rankings), 'comparison')}, with the fastest of each"
    )


def _named_facts(ranking: Ranking) -> tuple[str, ...]:
    return tuple(str(ranking.facts.get(name, "")) for name in NAMED)


def release(case: Case) -> tuple[str, str, str]:
    """Return the framework, the model and the framework's version of a case, in this order.

    The version is without its local part, as in `2.4.1` for `2.4.1+cpu`, and empty if the case does not state it.
    """
    version = str(case.facts.get("framework_version", "")).partition("+")[0]
    return str(case.facts.get("framework")), str(case.facts.get("model")), version


def older_releases(all_cases: Iterable[Case]) -> set[tuple[str, str, str]]:
    """Return those releases of the cases that are not the newest of their framework and model.

    A release is (framework, model, version), as `release` returns it. Versions are compared by the numbers in them.
    """
    releases = {release(case) for case in all_cases}
    newest: dict[tuple[str, str], list[int]] = {}
    for framework, model, version in releases:
        newest[framework, model] = max(newest.get((framework, model), []), _numbers(version))
    return {entry for entry in releases if _numbers(entry[2]) < newest[entry[:2]]}


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"[0-9]+", version)]


def list_unmeasured(ranking: Ranking, rankings: Iterable[Ranking]) -> list[str]:
    """Return the frameworks that a ranking lacks, and that rankings of other topologies have; empty without any.

    They are in the order of first occurrence. If implementations are ranked, implementations are returned instead.

    Args:
        ranking: The ranking.
        rankings: All rankings. Those that differ from `ranking` in a fact other than the topology are ignored.
    """
    names = dict.fromkeys(
        str(case.facts.get(ranking.factor))
        for other in rankings
        if _facts_but_topology(other) == _facts_but_topology(ranking)
        for case in other.entries
    )
    present = {str(case.facts.get(ranking.factor)) for case in ranking.entries}
    return [name for name in names if name not in present]


def _facts_but_topology(ranking: Ranking) -> dict[str, str]:
    return {name: key(value) for name, value in ranking.facts.items() if name != "topology"}


def describe_shared_facts(ranking: Ranking, rankings: Iterable[Ranking]) -> str:
    """Return the facts that distinguish a ranking from the other rankings of its model, such as `no clipping`.

    The facts are separated by commas. All cases of a ranking share them. Topology, model, batch size and precision are
    left out. The text is empty if the rankings differ in no other fact.

    Args:
        ranking: The ranking.
        rankings: All rankings, this one included.
    """
    model = ranking.facts.get("model")
    same_model = [other.facts for other in rankings if other.facts.get("model") == model]
    names = sorted({name for facts in same_model for name in facts} - set(NAMED))
    return ", ".join(
        format_stated(name, ranking.facts.get(name))
        for name in names
        if len({key(facts.get(name)) for facts in same_model}) > 1
    )


def _name_of_fastest(ranking: Ranking) -> str:
    """Return the name of the fastest case: framework, version, and what distinguishes it from the comparable cases."""
    first = ranking.entries[0]
    names = labels(ranking.cases, ("topology", "batch_size", "precision", "framework_version"))
    framework, _, rest = names[ranking.cases.index(first)].partition(" ")
    compiler = "" if str(first.facts.get("compiler")) in rest.split() else describe_compiler(ranking, first)
    return (
        " ".join(part for part in (framework, str(first.facts.get("framework_version", "")), rest) if part)
        + compiler
    )


def _list_others(ranking: Ranking, rankings: Sequence[Ranking]) -> str:
    first = ranking.entries[0]
    scale = common_scale([case.throughput for case in ranking.entries], "")
    unmeasured = list_unmeasured(ranking, rankings)

    def entry(case: Case) -> str:
        name = f"{case.facts.get(ranking.factor)}{describe_implementation(case, rankings)}"
        values = (value for _, value in list_settings(ranking, [case]))
        value = " ".join([name, *values, scale.format_alone(case.throughput)])
        return f"{value} ({case.throughput / first.throughput:.0%})"

    missing = f"; {', '.join(unmeasured)} not measured" if unmeasured else ""
    return ", ".join(map(entry, ranking.entries[1:])) + missing
