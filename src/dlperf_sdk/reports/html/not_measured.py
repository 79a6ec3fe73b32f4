"""The section on cases without a figure: what ran out of memory, and the topologies that a series lacks."""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.interfaces.collection import OutOfMemory
from dlperf_sdk.reports.blocks import Cell, Column, Notes, Table
from dlperf_sdk.reports.html.page import Folded, Item, Section, Sortable
from dlperf_sdk.reports.measurement_summary import sort_topologies
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.reports.series import describe_lacked_compilers, labels
from dlperf_sdk.spec.values import TopologySpec

TITLE = "Not measured"
OUT_OF_MEMORY = "out of memory (OOM)"
"""Text in place of a throughput, which readers find by either word."""
_PAGE_ROWS = 20
_VARYING = ("batch_size", "strategy", "topology")

_Series = tuple[str, str, str]


def section(cases: Sequence[Case], out_of_memory: Sequence[OutOfMemory] = ()) -> Section:
    """Return the section with what ran out of memory, and the topologies on which each series has no figure.

    A series is the cases that differ in their topology only. Batch sizes that lack the same topologies share a row.
    The section has no items if nothing is missing.

    Args:
        cases: All cases of a report.
        out_of_memory: The cases that ran out of memory.
    """
    named = _name_series(cases)
    exhausted = [
        (*series, str(stated.batch_size), "all topologies", Cell(f"{OUT_OF_MEMORY} [{number}]", "doubt"))
        for number, stated in _number(out_of_memory)
        for series in dict.fromkeys(series for series, case in named if stated.applies_to(case.facts))
    ]
    measured: dict[tuple[_Series, int], set[TopologySpec]] = {}
    for series, case in named:
        measured.setdefault((series, case.batch_size), set()).add(case.topology)
    topologies = sort_topologies(case.topology for case in cases)
    batches: dict[tuple[str, ...], list[str]] = {}
    for (series, batch), places in sorted(measured.items(), key=lambda entry: entry[0]):
        missing = ", ".join(str(topology) for topology in topologies if topology not in places)
        if missing:
            batches.setdefault((*series, missing), []).append(str(batch))
    rows = [
        *exhausted,
        *(
            (*series, ", ".join(sizes), missing, "not stated")
            for (*series, missing), sizes in batches.items()
        ),
    ]
    if not rows:
        return Section(TITLE, ())
    columns = (
        *(Column(title, key=True) for title in ("model", "precision", "case")),
        Column("batch sizes", key=True),
        Column("no figure on"),
        Column("why"),
    )
    complete = sum(len(places) == len(topologies) for places in measured.values())
    title = f"{complete} of {len(measured)} series have a figure on each of {', '.join(map(str, topologies))}"
    table = Sortable(Table(columns, tuple(rows), title), ("model", "precision", "why"), _PAGE_ROWS)
    statements = dict.fromkeys(
        f"{stated.document}:{stated.line}: “{stated.statement}”" for stated in out_of_memory
    )
    words: tuple[Item, ...] = (
        (Folded("What the source says on out of memory (OOM)", (Notes(tuple(statements)),)),)
        if statements
        else ()
    )
    answer = f"{len(measured) - complete} of {len(measured)} series lack a topology"
    if exhausted:
        answer = f"{format_count(len(exhausted), 'case')} ran {OUT_OF_MEMORY}; {answer}"
    lede = "A series is the cases that differ in their topology only."
    if exhausted:
        lede += " The source names no topology for what ran out of memory; [n] is its statement."
    return Section(TITLE, (table, *words), lede, folded=True, answer=f"{answer}.")


def _number(out_of_memory: Sequence[OutOfMemory]) -> list[tuple[int, OutOfMemory]]:
    """Return each case that ran out of memory with the number of its statement, counted from 1."""
    places = list(dict.fromkeys((stated.document, stated.line) for stated in out_of_memory))
    return [(places.index((stated.document, stated.line)) + 1, stated) for stated in out_of_memory]


def _name_series(cases: Sequence[Case]) -> list[tuple[_Series, Case]]:
    """Return the cases by model, each with model, precision and label of its series, without the batch size."""
    named = []
    for model in dict.fromkeys(case.facts.get("model") for case in cases):
        members = [case for case in cases if case.facts.get("model") == model]
        for name, case in zip(labels(members, _VARYING), members, strict=True):
            precision = str(case.facts.get("precision", ""))
            label = ", ".join(
                filter(None, (name.replace(f" {precision}", ""), describe_lacked_compilers(case, members)))
            )
            named.append(((str(model), precision, label), case))
    return named
