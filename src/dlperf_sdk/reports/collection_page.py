"""A collection of published figures as blocks: its tables, and the cells that its own figures contradict."""

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
    """Return the report on a collection."""
    return [
        Heading(collection.title, Cell(format_count(len(collection.figures), "figure"), "quiet")),
        Paragraph(collection.description),
        *collection.tables(),
        disagreement_table(collection),
    ]


def disagreement_table(collection: Collection) -> Table | Paragraph:
    """Return the disagreements of the source with its figures, or a sentence that there are none."""
    disagreements = collection.disagreements()
    if not disagreements:
        return Paragraph(
            f"{collection.title}: what is printed and what the figures give agree everywhere.", "good"
        )
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
    columns = tuple(map(Column, ("where", "cell", "printed", "computed", "what is wrong")))
    places = format_count(count_places(disagreements), "place")
    return Table(columns, tuple(rows), f"{collection.title}: {places} with a disagreement")


def count_places(disagreements: Sequence[Disagreement]) -> int:
    """Return the number of cells and protocols: one may disagree for several reasons."""
    return len(
        {(disagreement.document, disagreement.line, disagreement.cell) for disagreement in disagreements}
    )


def to_csv(collection: Collection) -> str:
    """Return CSV with a line per figure: every field and option, its source and footnotes; empty where not stated."""
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
    """Return the figures and disagreements as plain JSON values."""
    return {
        "figures": [figure.to_dict() for figure in collection.figures],
        "disagreements": [attrs.asdict(disagreement) for disagreement in collection.disagreements()],
    }
