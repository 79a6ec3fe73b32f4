"""A collection of published figures as blocks: its tables, and the cells that its own figures contradict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from dlperf_sdk.interfaces.collection import Collection, Disagreement
from dlperf_sdk.reports.blocks import Block, Cell, Column, Heading, Paragraph, Table
from dlperf_sdk.reports.numbers import counted


def page(collection: Collection) -> list[Block]:
    """Return the report on a collection."""
    return [
        Heading(collection.title, Cell(counted(len(collection.figures), "figure"), "quiet")),
        Paragraph(collection.description),
        *collection.tables(),
        disagreement_table(collection),
    ]


def disagreement_table(collection: Collection) -> Table | Paragraph:
    """Return the cells of the source that its figures contradict, or a sentence that there are none."""
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
    cells = counted(count_cells(disagreements), "cell")
    return Table(columns, tuple(rows), f"{collection.title}: {cells} with a disagreement")


def count_cells(disagreements: Sequence[Disagreement]) -> int:
    """Return the number of cells: one may disagree for several reasons."""
    return len(
        {(disagreement.document, disagreement.line, disagreement.cell) for disagreement in disagreements}
    )


def to_dict(collection: Collection) -> dict[str, Any]:
    """Return the figures and disagreements as plain JSON values."""
    return {
        "figures": [figure.to_dict() for figure in collection.figures],
        "disagreements": [attrs.asdict(disagreement) for disagreement in collection.disagreements()],
    }
