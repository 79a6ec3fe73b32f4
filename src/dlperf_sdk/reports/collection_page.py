"""A collection of published figures as blocks, CSV and JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from dlperf_sdk.exchange.csv_table import csv_text
from dlperf_sdk.interfaces.collection import Collection, Disagreement
from dlperf_sdk.interfaces.figure import FIELDS, OPTION_ROLES
from dlperf_sdk.reports.blocks import Block, Cell, Column, Heading, Paragraph, Table
from dlperf_sdk.reports.numbers import format_count


def page(collection: Collection) -> list[Block]:
    """Return the report on a collection: its description, the source's tables, and the disagreements in them."""
    return [
        Heading(collection.title, Cell(format_count(len(collection.figures), "figure"), "quiet")),
        Paragraph(collection.description),
        *collection.tables(),
        disagreement_table(collection),
    ]


def disagreement_table(collection: Collection) -> Table | Paragraph:
    """Return a table of the disagreements between a source and its figures.

    Without any, return a paragraph that says so.
    """
    disagreements = collection.disagreements()
    if not disagreements:
        return Paragraph(f"{collection.title}: all printed numbers agree with the figures.", "good")
    rows = [
        (
            f"{disagreement.document}:{disagreement.line}",
            disagreement.cell,
            disagreement.printed,
            disagreement.computed,
            disagreement.reason,
        )
        for disagreement in disagreements
    ]
    columns = tuple(map(Column, ("document and line", "cell", "printed", "computed", "disagreement")))
    places = format_count(count_places(disagreements), "place")
    return Table(columns, tuple(rows), f"{collection.title}: {places} with a disagreement")


def count_places(disagreements: Sequence[Disagreement]) -> int:
    """Return the number of distinct places of disagreements, by document, line and cell.

    One place may disagree for several reasons.
    """
    return len(
        {(disagreement.document, disagreement.line, disagreement.cell) for disagreement in disagreements}
    )


def to_csv(collection: Collection) -> str:
    """Return the figures as CSV: a header, then a line per figure with its fields, options, source and footnotes.

    A cell is empty if the source does not state the value. The values of
    a figure's repeats share one cell, separated by spaces; so do the marks of its footnotes.
    """
    options = list(OPTION_ROLES)
    fields = [name for name in FIELDS if name not in ("source", "repeats", "footnotes")]
    header = [*fields, *options, "repeats", "document", "line", "commit", "footnotes"]
    lines = []
    for figure in collection.figures:
        values = [figure.value(name) for name in (*fields, *options)]
        source = figure.source
        lines.append(
            [
                *(value if isinstance(value, int | float | None) else str(value) for value in values),
                " ".join(map(str, figure.repeats)),
                source.document,
                source.line,
                source.commit,
                " ".join(figure.footnotes),
            ]
        )
    return csv_text(header, lines)


def to_dict(collection: Collection) -> dict[str, Any]:
    """Return JSON values: `figures` and `disagreements`, each a list of objects."""
    return {
        "figures": [figure.to_dict() for figure in collection.figures],
        "disagreements": [attrs.asdict(disagreement) for disagreement in collection.disagreements()],
    }
