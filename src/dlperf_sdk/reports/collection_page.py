"""A collection of published figures as blocks, CSV and JSON values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import attrs

from dlperf_sdk.analysis.ranking import rankings
from dlperf_sdk.exchange.csv_table import csv_text
from dlperf_sdk.interfaces.collection import Collection, Disagreement
from dlperf_sdk.interfaces.figure import FIELDS, OPTION_ROLES
from dlperf_sdk.reports.blocks import Block, Cell, Column, Heading, Paragraph, Table
from dlperf_sdk.reports.leads import ranking_values
from dlperf_sdk.reports.measurement_summary import describe_check
from dlperf_sdk.reports.missing_intervals import spread
from dlperf_sdk.reports.numbers import format_count


def page(collection: Collection) -> list[Block]:
    """Return the report on a collection as blocks: description, tables of the source, and disagreements.

    The first disagreements are figures that break the source's prescribed protocol. After them come printed values that
    do not follow from the figures.
    """
    return [
        Heading(collection.title, Cell(format_count(len(collection.figures), "figure"), "quiet")),
        Paragraph(collection.description),
        *collection.tables(),
        *deviation_blocks(collection),
        disagreement_block(collection),
    ]


def deviation_blocks(collection: Collection) -> tuple[Paragraph, ...]:
    """Return a paragraph on the figures of a collection that break the protocol that its source prescribes.

    The paragraph says in which ways they break it, with the number of figures for each way. The tuple is empty if no
    figure breaks the protocol.
    """
    deviations = [disagreement for disagreement in collection.disagreements() if disagreement.figures]
    if not deviations:
        return ()
    counts = Counter[tuple[str, str]]()
    for deviation in deviations:
        counts[deviation.printed, deviation.computed] += deviation.figures
    ways = ", ".join(
        f"{used} instead of {prescribed}: {count:,}" for (prescribed, used), count in counts.items()
    )
    text = (
        f"{collection.title}: {deviations[0].reason} ({ways}; a figure may deviate in steps and in repeats)."
    )
    return (Paragraph(text, "doubt"),)


def disagreement_block(collection: Collection) -> Paragraph | Table:
    """Return a table of the printed cells of a source that disagree with its figures; a paragraph if all agree.

    A printed cell is a value in the source that can be computed from the figures. The table is sorted by
    relative difference, the largest first; cells without a difference, such as a right number under a wrong label, come
    last. The paragraph is a sentence with the number of cells that were checked.
    """
    cells = group_cells(collection.disagreements())
    checked = format_count(collection.count_printed_cells(), "printed cell")
    if not cells:
        return Paragraph(f"{collection.title}: all of {checked} agree with the figures.", "good")
    rows = [
        (
            members[0].cell,
            f"{members[0].document}:{members[0].line}",
            _kind(members),
            "–" if members[0].difference is None else f"{abs(members[0].difference):.2%}",
            members[0].printed,
            members[0].computed,
            "; ".join(member.reason for member in members),
        )
        for members in cells
    ]
    columns = (
        Column("cell", key=True),
        Column("document and line", key=True),
        Column(KIND, whole=True),
        Column("difference", right=True),
        Column("printed"),
        Column("from the figures"),
        Column("what is wrong"),
    )
    rounded = describe_rounding(cells)
    disagreements = count_disagreements(cells)
    verb = "disagrees" if disagreements.startswith("1 ") and " and " not in disagreements else "disagree"
    title = f"{collection.title}: {disagreements} {verb} with the figures{rounded}, of {checked}"
    return Table(columns, tuple(rows), title)


def tabulate_causes(cells: Sequence[Sequence[Disagreement]]) -> Table:
    """Return a table of the causes of disagreements, each with the number of its cells, the most frequent first.

    Args:
        cells: For each printed cell that disagrees with the figures, its disagreements, as `group_cells` returns them.
    """
    counts = Counter((_kind(members), _describe_cause(members)) for members in cells)
    rows = tuple((str(count), kind, cause) for (kind, cause), count in counts.most_common())
    columns = (Column("cells", right=True), Column(KIND), Column("cause"))
    return Table(columns, rows, "Disagreements by cause")


def _describe_cause(members: Sequence[Disagreement]) -> str:
    """Return the cause of a cell's disagreements, without the number that is printed."""
    kind = _kind(members)
    if kind == _LABEL:
        return "; ".join(member.reason for member in members if member.difference is None)
    _, _, origin = members[0].reason.partition(", which is ")
    return f"{origin} is printed" if origin else "another number is printed than the figures give"


KIND = "kind"
"""Title of the column that tells wrong numbers, wrong labels and rounding apart."""
_NUMBER, _LABEL, _ROUNDING = "wrong number", "wrong label", "last digit"


def _kind(members: Sequence[Disagreement]) -> str:
    """Return what is wrong in a cell: its number, else the label above it, else only the rounding of its number."""
    kinds = {
        _LABEL if member.difference is None else _ROUNDING if member.is_rounding else _NUMBER
        for member in members
    }
    return next(kind for kind in (_NUMBER, _LABEL, _ROUNDING) if kind in kinds)


def count_disagreements(cells: Sequence[Sequence[Disagreement]]) -> str:
    """Return how many cells have a wrong number, and how many a right number under a wrong label, as text.

    The text is such as `3 numbers and 1 label`, and empty if there are no such cells.

    Args:
        cells: For each printed cell that disagrees with the figures, its disagreements, as `group_cells` returns them.
    """
    kinds = Counter(map(_kind, cells))
    return " and ".join(
        format_count(kinds[kind], kind.removeprefix("wrong ")) for kind in (_NUMBER, _LABEL) if kinds[kind]
    )


def describe_rounding(cells: Sequence[Sequence[Disagreement]]) -> str:
    """Return how many cells differ in the last digit only, such as `; 4 more differ in the last digit`.

    The text is empty if there are no such cells.

    Args:
        cells: For each printed cell that disagrees with the figures, its disagreements, as `group_cells` returns them.
    """
    rounded = Counter(map(_kind, cells))[_ROUNDING]
    return f"; {rounded} more {'differs' if rounded == 1 else 'differ'} in the last digit" if rounded else ""


def group_cells(disagreements: Sequence[Disagreement]) -> list[list[Disagreement]]:
    """Return disagreements grouped by printed cell of the source: a list for each cell, with at least one.

    A cell has several disagreements if it is wrong for several reasons. The disagreements of a cell are in descending
    order of relative difference, those without a difference last. The cells are in descending order of their
    largest difference. Disagreements about figures that break the prescribed protocol are left out.
    """
    cells: dict[tuple[str, int, str], list[Disagreement]] = {}
    for disagreement in disagreements:
        if not disagreement.figures:
            place = (disagreement.document, disagreement.line, disagreement.cell)
            cells.setdefault(place, []).append(disagreement)
    ordered = [sorted(members, key=_descending) for members in cells.values()]
    return sorted(ordered, key=lambda members: _descending(members[0]))


def _descending(disagreement: Disagreement) -> float:
    return 0.0 if disagreement.difference is None else -abs(disagreement.difference)


def to_csv(collection: Collection) -> str:
    """Return the figures of a collection as CSV: a header, then a line per figure in order.

    The columns are the figure's fields and options under their names, then `repeats`, `document`, `line`, `commit`,
    `footnotes`, `spread` and `protocol_check`. A cell is empty if the source does not state the value. The throughputs
    of a figure's repeats share one cell, separated by spaces; so do its footnotes. `spread` is the standard deviation
    between repeats divided by their median, empty with fewer than two. `protocol_check` is the outcome of a comparison
    with the prescribed protocol, empty if the source prescribes none.
    """
    options = list(OPTION_ROLES)
    fields = [name for name in FIELDS if name not in ("source", "repeats", "footnotes")]
    header = [
        *fields,
        *options,
        "repeats",
        "document",
        "line",
        "commit",
        "footnotes",
        "spread",
        "protocol_check",
    ]
    prescribed = collection.prescribed
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
                spread(figure.repeats),
                figure.protocol.check(prescribed) if prescribed else None,
            ]
        )
    return csv_text(header, lines)


def to_dict(collection: Collection) -> dict[str, Any]:
    """Return the collection as JSON values.

    Returns:
        A dict with four lists of objects. `figures` has each figure as the schema `published` describes it.
        `disagreements` has the fields of each `Disagreement`. `rankings` has each ranking as `leads.ranking_values`
        returns it. `protocols` has an object for each figure, in the order of the figures, with two texts: `check`, the
        outcome of the comparison with the prescribed protocol, and `difference`, the differences. `protocols` is empty
        if the source prescribes no protocol.
    """
    prescribed = collection.prescribed
    return {
        "figures": [figure.to_dict() for figure in collection.figures],
        "disagreements": [attrs.asdict(disagreement) for disagreement in collection.disagreements()],
        "rankings": [ranking_values(ranking) for ranking in rankings(collection.figures)],
        "protocols": [
            {"check": check.text, "difference": difference}
            for check, difference in (
                describe_check(figure.protocol, prescribed) for figure in collection.figures if prescribed
            )
        ],
    }
