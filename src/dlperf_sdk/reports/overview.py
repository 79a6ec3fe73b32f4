"""The fastest framework of each workload and precision on all topologies, as one table with notes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from dlperf_sdk.analysis.ranking import Ranking
from dlperf_sdk.reports.blocks import ABSENT, Cell, Column, Notes, Table, Tone
from dlperf_sdk.reports.exclusions import name_faster
from dlperf_sdk.reports.fastest import (
    NAMED,
    describe_shared_facts,
    list_unmeasured,
    older_releases,
    release,
)
from dlperf_sdk.reports.leads import describe_compiler, ranking_reservations, remove_values
from dlperf_sdk.reports.numbers import common_scale, format_ends
from dlperf_sdk.reports.wording import join_names
from dlperf_sdk.spec.compiler import COMPILERS

RESERVATIONS = "reservations"
"""Name of the notes that list the reservations."""


def overview(rankings: Sequence[Ranking], unrivaled: Sequence[Ranking]) -> tuple[Table, Notes]:
    """Return a table with a row per workload and precision and a column per topology, and its notes.

    A cell has two lines. The first line has the fastest framework and its throughput. The second line has the lead over
    the next framework, as an interval if there is one, and the number of the cell's note. Where only one framework was
    measured, the cell has no lead. A note names the reservations, an older release, the frameworks that were measured
    on other topologies of the row but not on this one, and faster cases that are not comparable. Rows are sorted by
    model and precision, in the order of the rankings, then by batch size, the largest and usually fastest first.
    Columns are sorted by devices.

    Args:
        rankings: The rankings, each with a batch size among its facts.
        unrivaled: The groups of comparable cases that have one framework only, from `analysis.ranking.unrivaled`.
    """
    notes, numbers = number_notes(rankings)
    rows: dict[tuple[str, ...], dict[str, Cell]] = {}
    for ranking in (all_groups := [*rankings, *unrivaled]):
        facts = [str(ranking.facts.get(name, "")) for name in NAMED[1:]]
        cells = rows.setdefault((*facts, describe_shared_facts(ranking, all_groups)), {})
        is_alone = len(ranking.entries) == 1
        cells[str(ranking.facts["topology"])] = (
            _name_only_one(ranking) if is_alone else _summarize(ranking, numbers.get(id(ranking)))
        )
    topologies = sorted(
        {ranking.entries[0].topology for ranking in all_groups},
        key=lambda topology: (topology.devices, topology.nodes),
    )
    has_facts = any(facts for *_, facts in rows)
    columns = (
        Column("model", whole=True, key=True),
        Column("batch", right=True, key=True),
        Column("precision", whole=True, key=True),
        *([Column("settings", key=True)] if has_facts else []),
        *(Column(str(topology), whole=True) for topology in topologies),
    )
    models, precisions = (list(dict.fromkeys(case_facts[index] for case_facts in rows)) for index in (0, 2))
    ordered = sorted(
        rows.items(),
        key=lambda row: (models.index(row[0][0]), precisions.index(row[0][2]), -int(row[0][1]), row[0][3]),
    )
    units = ", ".join(sorted({ranking.entries[0].unit for ranking in rankings}))
    table = Table(
        columns,
        tuple(
            (
                *(case_facts if has_facts else case_facts[:-1]),
                *(cells.get(str(topology), ABSENT) for topology in topologies),
            )
            for case_facts, cells in ordered
        ),
        f"Fastest framework, its throughput ({units}) and its lead with [note], by model, "
        "precision and batch size; *: no other is comparable",
    )
    return table, Notes(notes, RESERVATIONS)


def number_notes(rankings: Sequence[Ranking]) -> tuple[tuple[str, ...], dict[int, int]]:
    """Return the distinct notes on what restricts the leads of rankings, and the number of each ranking's note.

    A note names reservations, an older release, frameworks that were not measured, and faster cases that are not
    comparable. Notes are numbered from 1, in the order of the rankings; rankings with the same note share it.

    Returns:
        The notes in the order of their numbers; and `id(ranking)` → number, for each ranking with a note.
    """
    old = older_releases(case for ranking in rankings for case in ranking.cases)
    notes: dict[str, int] = {}
    numbers = {}
    for ranking in rankings:
        if note := "; ".join(_list_notes(ranking, rankings, old)):
            numbers[id(ranking)] = notes.setdefault(f"{note[0].upper()}{note[1:]}.", len(notes) + 1)
    return tuple(notes), numbers


def _name_only_one(group: Ranking) -> Cell:
    """Return the only framework of a group, with its compiler, and its throughput."""
    (case,) = group.entries
    compiler = case.facts.get("compiler")
    names = (case.facts.get(group.factor), *([compiler] if compiler not in (None, COMPILERS.default) else []))
    value = common_scale([case.throughput], "").format_alone(case.throughput)
    return Cell(" ".join([*map(str, names), value, "*"]), "quiet")


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
