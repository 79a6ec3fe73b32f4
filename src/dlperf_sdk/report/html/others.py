"""Published figures beside the results of the same case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dlperf_sdk.published.collection import Published
from dlperf_sdk.report.beside import beside
from dlperf_sdk.report.blocks import Cell, Heading, Paragraph, Table
from dlperf_sdk.report.html.page import Folded, Item, Section, Sortable
from dlperf_sdk.report.numbers import counted
from dlperf_sdk.results.result import Result

_MOST_WITHOUT = 100


def section(results: Sequence[Result], collection: Published) -> Section:
    """A row for each result and each figure that goes with it, and whose result has none."""
    items: list[Item] = []
    without: list[Item] = []
    for block in beside(results, collection):
        if isinstance(block, Table):
            title = counted(len(block.rows), "figure")
            items.append(Sortable(Table(block.columns, tuple(_named(block.rows)), title), ("case",)))
        elif isinstance(block, Paragraph):
            without.append(block)
        elif not isinstance(block, Heading):
            items.append(block)
    if without:
        more = len(without) - _MOST_WITHOUT
        shown = without[:_MOST_WITHOUT]
        if more > 0:
            shown.append(Paragraph(f"And {more:,} more.", "quiet"))
        items.append(
            Folded(f"{counted(len(without), 'case')} without a figure to stand beside", tuple(shown))
        )
    lede = (
        f"{collection.about} The same framework, model, topology and precision; a ratio with a question mark answers "
        "no question, and its note says why."
    )
    return Section(f"Beside {collection.title}", tuple(items), lede)


def _named(rows: Sequence[tuple[Cell, ...]]) -> Iterator[tuple[Cell, ...]]:
    """Every row with its case, so that sorting does not part the figures from theirs."""
    name = Cell("")
    for row in rows:
        name = row[0] if row[0].text else name
        yield (name, *row[1:])
