"""The page of a fleet: its verdict, the findings, and all nodes."""

from __future__ import annotations

import dlperf_sdk
from dlperf_sdk.analysis.fleet import Fleet
from dlperf_sdk.reports.blocks import Notes, Paragraph
from dlperf_sdk.reports.fleet import (
    describe_coverage,
    describe_method,
    list_limits,
    nodes_table,
    summarize,
)
from dlperf_sdk.reports.html.page import Page, Section, Sortable, Tile
from dlperf_sdk.reports.numbers import format_count


def page(fleet: Fleet) -> Page:
    """Return the page of a fleet: tiles with the verdict and the numbers of nodes, a table of all nodes, the method."""
    notes: list[str] = []
    verdict = summarize(fleet)
    table = nodes_table(fleet, list(fleet.nodes), notes)
    return Page(
        title=f"Fleet: {fleet.case}",
        lede=describe_coverage(fleet),
        tiles=(
            Tile("Verdict", verdict.text, tone=verdict.tone),
            Tile("Nodes", str(len(fleet.nodes))),
            Tile("Flagged", str(len(fleet.flagged)), tone="bad" if fleet.flagged else "plain"),
            Tile("Failed", str(len(fleet.failed)), tone="doubt" if fleet.failed else "plain"),
        ),
        sections=(
            Section(
                "Nodes",
                (Sortable(table, ("outcome", "devices")), *([Notes(tuple(notes))] if notes else [])),
            ),
            Section(
                "Method",
                (
                    Paragraph(describe_method(fleet)),
                    *(Paragraph(text, "doubt") for text in list_limits(fleet)),
                ),
            ),
        ),
        colophon=f"Made by dlperf-sdk {dlperf_sdk.__version__} from {format_count(len(fleet.nodes), 'node')}.",
    )
