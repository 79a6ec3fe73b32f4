"""The section on cases without a figure: the topologies that a series lacks, and what ran out of memory."""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.reports.blocks import Column, Paragraph, Table
from dlperf_sdk.reports.html.page import Item, Section, Sortable
from dlperf_sdk.reports.measurement_summary import sort_topologies
from dlperf_sdk.reports.series import labels
from dlperf_sdk.spec.values import TopologySpec

TITLE = "Not measured"
_PAGE_ROWS = 20
_VARYING = ("batch_size", "strategy", "topology")


def section(cases: Sequence[Case], out_of_memory: Sequence[tuple[str, str]] = ()) -> Section:
    """Return the section with the topologies on which each series has no figure, and what ran out of memory.

    A series is the cases that differ in their topology only. Batch sizes that lack the same topologies share a row.
    The section has no items if nothing is missing.

    Args:
        cases: All cases of a report.
        out_of_memory: (text, place) of each statement of the source on cases that ran out of memory; the place is its
            document and line.
    """
    series: dict[tuple[str, str, str, int], set[TopologySpec]] = {}
    for model in {case.facts.get("model") for case in cases}:
        members = [case for case in cases if case.facts.get("model") == model]
        for name, case in zip(labels(members, _VARYING), members, strict=True):
            precision = str(case.facts.get("precision", ""))
            identity = (str(model), precision, name.replace(f" {precision}", ""), case.batch_size)
            series.setdefault(identity, set()).add(case.topology)
    topologies = sort_topologies(case.topology for case in cases)
    batches: dict[tuple[str, ...], list[str]] = {}
    for (model, precision, name, batch), measured in sorted(series.items(), key=lambda entry: entry[0]):
        missing = ", ".join(str(topology) for topology in topologies if topology not in measured)
        if missing:
            batches.setdefault((model, precision, name, missing), []).append(str(batch))
    rows = [
        (model, precision, name, ", ".join(sizes), missing)
        for (model, precision, name, missing), sizes in batches.items()
    ]
    columns = (
        *(Column(title, key=True) for title in ("model", "precision", "case")),
        Column("batch sizes", key=True),
        Column("no figure on"),
    )
    complete = sum(len(measured) == len(topologies) for measured in series.values())
    title = f"{complete} of {len(series)} series have a figure on each of {', '.join(map(str, topologies))}"
    table = Sortable(Table(columns, tuple(rows), title), ("model", "precision", "case"), _PAGE_ROWS)
    stated = (Paragraph(f"Out of memory ({place}): “{text}”") for text, place in out_of_memory)
    items: tuple[Item, ...] = (*stated, *([table] if rows else []))
    return Section(TITLE, items, "A series is one case with one batch size per device.", folded=True)
