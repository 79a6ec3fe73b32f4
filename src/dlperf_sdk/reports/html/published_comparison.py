"""The section on the comparison of results with published figures of the same case."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dlperf_sdk.interfaces.collection import Collection
from dlperf_sdk.reports.blocks import Cell, Notes, Paragraph, Table
from dlperf_sdk.reports.html.page import Folded, Item, Section, Sortable
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.reports.published_comparison import compare_with_published
from dlperf_sdk.results.result import Result

MAX_RESULTS = 500
"""Maximum number of results that are compared. Each adds about six rows."""
_MAX_WITHOUT = 100
_MAX_UNFOLDED_NOTES = 6


def section(results: Sequence[Result], collection: Collection) -> Section:
    """Return the section with a row for each result that has published figures, and one for each of its figures.

    A result's figures are those of the same framework, model, topology and precision; notes state what else differs.
    Results without such a figure or without a valid throughput have no row: a folded list names the first hundred of
    them. Only the first `MAX_RESULTS` (500) results are compared.
    """
    items: list[Item] = []
    unmatched: list[Item] = []
    for block in compare_with_published(results[:MAX_RESULTS], collection):
        if isinstance(block, Table):
            result_count = sum(not row[3].text for row in block.rows)
            figures = format_count(len(block.rows) - result_count, "figure")
            title = f"{format_count(result_count, 'result')} compared with {figures}"
            items.append(Sortable(Table(block.columns, tuple(_repeat_names(block.rows)), title), ("case",)))
        elif isinstance(block, Paragraph):
            unmatched.append(block)
        elif isinstance(block, Notes):
            count = len(block.texts)
            items.append(
                Folded(f"{format_count(count, 'note')}: what differs", (block,))
                if count > _MAX_UNFOLDED_NOTES
                else block
            )
    if len(results) > MAX_RESULTS:
        items.append(Paragraph(f"Of {len(results):,} results these are the first {MAX_RESULTS:,}.", "quiet"))
    if unmatched:
        remaining = len(unmatched) - _MAX_WITHOUT
        visible = unmatched[:_MAX_WITHOUT]
        if remaining > 0:
            visible.append(Paragraph(f"And {remaining:,} more.", "quiet"))
        items.append(
            Folded(f"{format_count(len(unmatched), 'case')} without a published figure", tuple(visible))
        )
    lede = (
        f"{collection.description} The same framework, model, topology and precision; a ratio with a question mark "
        "answers no question, and its note says why."
    )
    return Section(f"Comparison with {collection.title}", tuple(items), lede)


def _repeat_names(rows: Sequence[tuple[Cell, ...]]) -> Iterator[tuple[Cell, ...]]:
    """Repeat the case in every row, so that sorting keeps figures with their case."""
    name = Cell("")
    for row in rows:
        name = row[0] if row[0].text else name
        yield (name, *row[1:])
