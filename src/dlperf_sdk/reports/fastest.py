"""The fastest framework of each topology, batch size and precision, as tables."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from dlperf_sdk.analysis.case import Case, key
from dlperf_sdk.analysis.ranking import Ranking
from dlperf_sdk.reports.blocks import Cell, Column, Notes, Table, Tone
from dlperf_sdk.reports.exclusions import format_excluded, name_faster
from dlperf_sdk.reports.leads import (
    RULE,
    STATED_BY_NEITHER,
    describe_compiler,
    lead,
    ranking_reservations,
    remove_values,
)
from dlperf_sdk.reports.numbers import common_scale, format_count, format_ends, quantity
from dlperf_sdk.reports.series import format_fact, format_stated, labels
from dlperf_sdk.reports.wording import format_name, join_names

TITLE = "Fastest framework"
LEDE = (
    "4n8d is 4 nodes with 8 devices each; batch sizes are per device. A range in a ratio is its 95 % interval. "
    f"{RULE}"
)
RESERVATIONS = "reservations"
"""Name of the notes that list the reservations."""
_NAMED = ("topology", "model", "batch_size", "precision")
"""Facts with their own column. Other facts are named if rankings differ in them."""


def fastest_table(rankings: Sequence[Ranking]) -> Table:
    """Return a table with a row per ranking.

    A row has the facts of the ranking, the fastest case, its throughput and its lead over the second, the other
    cases, and the cases that are not comparable. The rows are in the order of the rankings.

    Raises:
        UnknownName: the core does not know the precision of a ranking or of cases that it leaves out.
    """
    equal = [describe_shared_facts(ranking, rankings) for ranking in rankings]
    rows: list[tuple[Cell | str, ...]] = [
        (
            *(str(ranking.facts.get(name, "")) for name in _NAMED),
            *([facts] if any(equal) else []),
            _name_of_fastest(ranking),
            quantity(ranking.entries[0].throughput, ranking.entries[0].unit),
            lead(ranking),
            _list_others(ranking, list_unmeasured(ranking, rankings)),
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


def overview(rankings: Sequence[Ranking]) -> tuple[Table, Notes]:
    """Return a table with a row per workload and precision and a column per topology, and its notes.

    A cell has two lines: the fastest framework with its throughput, and its lead over the second, with the number of
    its note. A lead with an interval is the interval. A note names the reservations, an older release, the frameworks
    that were measured elsewhere in the row and not there, and faster cases that are not comparable. The columns are in
    ascending order of devices.

    Args:
        rankings: The rankings, each with a batch size among its facts.
    """
    notes, numbers = number_notes(rankings)
    rows: dict[tuple[str, ...], dict[str, Cell]] = {}
    for ranking in rankings:
        facts = [str(ranking.facts.get(name, "")) for name in _NAMED[1:]]
        cells = rows.setdefault((*facts, describe_shared_facts(ranking, rankings)), {})
        cells[str(ranking.facts["topology"])] = _summarize(ranking, numbers.get(id(ranking)))
    topologies = sorted(
        {ranking.entries[0].topology for ranking in rankings},
        key=lambda topology: (topology.devices, topology.nodes),
    )
    has_facts = any(facts for *_, facts in rows)
    columns = (
        Column("model", whole=True, key=True),
        Column("batch", right=True, key=True),
        Column("precision", whole=True, key=True),
        *([Column("settings", key=True)] if has_facts else []),
        *(Column(str(topology)) for topology in topologies),
    )
    models, precisions = (list(dict.fromkeys(case_facts[index] for case_facts in rows)) for index in (0, 2))
    ordered = sorted(
        rows.items(),
        key=lambda row: (models.index(row[0][0]), precisions.index(row[0][2]), int(row[0][1]), row[0][3]),
    )
    units = ", ".join(sorted({ranking.entries[0].unit for ranking in rankings}))
    table = Table(
        columns,
        tuple(
            (
                *(case_facts if has_facts else case_facts[:-1]),
                *(cells.get(str(topology), _UNMEASURED) for topology in topologies),
            )
            for case_facts, cells in ordered
        ),
        f"Fastest framework, its throughput ({units}), and its lead over the second, with [note]",
    )
    return table, Notes(notes, RESERVATIONS)


def number_notes(rankings: Sequence[Ranking]) -> tuple[tuple[str, ...], dict[int, int]]:
    """Return the notes of `overview`, and `id` of a ranking → number of its note, counted from 1, if it has one.

    Rankings with the same note share it; the notes are in the order of the rankings.
    """
    old = older_releases(case for ranking in rankings for case in ranking.cases)
    notes: dict[str, int] = {}
    numbers = {}
    for ranking in rankings:
        if note := "; ".join(_list_notes(ranking, rankings, old)):
            numbers[id(ranking)] = notes.setdefault(f"{note[0].upper()}{note[1:]}.", len(notes) + 1)
    return tuple(notes), numbers


_UNMEASURED = Cell("fewer than two\nmeasured", "quiet")


def _summarize(ranking: Ranking, number: int | None) -> Cell:
    """Return the fastest framework, its throughput, its lead and the number of its note in two lines."""
    first, second = ranking.entries[:2]
    compared, factor = ranking.comparison, ranking.factor
    name, value = str(first.facts.get(factor)), common_scale([first.throughput], "")
    compiler = describe_compiler(ranking, first).replace(" with", "")
    ratio = f"≈{compared.ratio:.2f}"
    if compared.low is not None and compared.high is not None:
        ratio = "–".join(format_ends(compared.low, compared.high))
    mark = f" [{number}]" if number else ""
    tone: Tone = "quiet" if compared.low is None else "doubt" if mark else "plain"
    lines = [
        f"{name}{compiler} {value.format_alone(first.throughput)}",
        f"{ratio}× {second.facts.get(factor)}",
    ]
    # On the shorter line, the mark makes the column no wider.
    lines[len(lines[0]) > len(lines[1])] += mark
    return Cell("\n".join(lines), tone)


def _list_notes(
    ranking: Ranking, rankings: Sequence[Ranking], old: Collection[tuple[str, ...]]
) -> Iterator[str]:
    """Yield what restricts the lead of a ranking, without the values of reservations."""
    yield from map(remove_values, ranking_reservations(ranking))
    for case in ranking.entries[:2]:
        if release(case) in old:
            framework, _, version = release(case)
            yield f"{framework} {version} is not the newest release"
    if unmeasured := list_unmeasured(ranking, rankings):
        yield f"{join_names(unmeasured)} not measured"
    if faster := name_faster(ranking):
        yield f"faster: {faster}"


def release(case: Case) -> tuple[str, str, str]:
    """Return the framework, the model and the framework's version of a case.

    The version is without its local part, as in `2.4.1` for `2.4.1+cpu`, and empty if the case does not state it.
    """
    version = str(case.facts.get("framework_version", "")).partition("+")[0]
    return str(case.facts.get("framework")), str(case.facts.get("model")), version


def older_releases(all_cases: Iterable[Case]) -> set[tuple[str, str, str]]:
    """Return the releases that are older than another of the same framework and model, among those of some cases.

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

    They are in the order of first occurrence. If implementations are ranked, they are returned instead of frameworks.

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


def _settings(case: Case, names: Iterable[str]) -> tuple[str, ...]:
    return tuple(key(case.facts.get(name)) for name in ("model", "batch_size", *names))


def describe_unrivaled(rankings: Sequence[Ranking]) -> str:
    """Return a sentence on the excluded cases that are in no ranking, because only one framework has their settings.

    It is empty if there are none. `rankings` are all rankings of the report.
    """
    names = sorted(
        {name for ranking in rankings for group in ranking.excluded for name, _ in group.differences}
    )
    in_rows = {_settings(ranking.entries[0], names) for ranking in rankings}
    batches: dict[tuple[str, str], set[int]] = {}
    for group in (group for ranking in rankings for group in ranking.excluded):
        case = group.cases[0]
        if _settings(case, names) not in in_rows:
            settings = " ".join(format_fact(name, case.facts[name]) for name in names if name in case.facts)
            framework = case.facts.get("framework")
            batches.setdefault((str(case.facts.get("model")), f"{framework} {settings}"), set()).add(
                case.batch_size
            )
    listed = [
        f"{name} ({model}, batch {', '.join(map(str, sorted(sizes)))})"
        for (model, name), sizes in batches.items()
    ]
    return (
        f"In no row, because no other framework has the same settings: {'; '.join(listed)}." if listed else ""
    )


def describe_shared_facts(ranking: Ranking, rankings: Iterable[Ranking]) -> str:
    """Return the facts that all cases of a ranking share and that distinguish it from its model's other rankings.

    The result is text. Topology, model, batch size and precision are left out. It is empty if the rankings differ in
    no other fact.

    Args:
        ranking: The ranking.
        rankings: All rankings, this one included.
    """
    model = ranking.facts.get("model")
    same_model = [other.facts for other in rankings if other.facts.get("model") == model]
    names = sorted({name for facts in same_model for name in facts} - set(_NAMED))
    return ", ".join(
        f"{format_name(name)} {STATED_BY_NEITHER}"
        if name in ranking.unstated
        else format_stated(name, ranking.facts.get(name))
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


def _list_others(ranking: Ranking, unmeasured: Sequence[str]) -> str:
    first = ranking.entries[0]
    scale = common_scale([case.throughput for case in ranking.entries], "")

    def entry(case: Case) -> str:
        value = f"{case.facts.get(ranking.factor)} {scale.format_alone(case.throughput)}"
        return f"{value} ({case.throughput / first.throughput:.0%})"

    missing = f"; {', '.join(unmeasured)} not measured" if unmeasured else ""
    return ", ".join(map(entry, ranking.entries[1:])) + missing
