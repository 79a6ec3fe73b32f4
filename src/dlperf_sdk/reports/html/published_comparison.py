"""Published figures beside the results of the same case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dlperf_sdk.published.collection import Published
from dlperf_sdk.reports.blocks import Cell, Notes, Paragraph, Table
from dlperf_sdk.reports.html.page import Folded, Item, Section, Sortable
from dlperf_sdk.reports.numbers import counted
from dlperf_sdk.reports.published_comparison import beside
from dlperf_sdk.results.result import Result

MOST = 500
"""Results that figures stand beside: each brings half a dozen rows."""
_MOST_WITHOUT = 100
_FEW = 6
"""Notes that are read at once."""


def section(results: Sequence[Result], collection: Published) -> Section:
    """A row for each result and each figure that goes with it, and whose result has none."""
    items: list[Item] = []
    without: list[Item] = []
    for block in beside(results[:MOST], collection):
        if isinstance(block, Table):
            own = sum(not row[3].text for row in block.rows)
            title = f"{counted(own, 'result')} beside {counted(len(block.rows) - own, 'figure')}"
            items.append(Sortable(Table(block.columns, tuple(_named(block.rows)), title), ("case",)))
        elif isinstance(block, Paragraph):
            without.append(block)
        elif isinstance(block, Notes):
            count = len(block.texts)
            items.append(
                Folded(f"{counted(count, 'note')}: what differs", (block,)) if count > _FEW else block
            )
    if len(results) > MOST:
        items.append(Paragraph(f"Of {len(results):,} results these are the first {MOST:,}.", "quiet"))
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
