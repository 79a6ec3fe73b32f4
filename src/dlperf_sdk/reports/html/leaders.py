"""The section on the fastest framework of each topology, batch size and precision."""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk.analysis.ranking import Ranking
from dlperf_sdk.reports.blocks import Paragraph
from dlperf_sdk.reports.fastest import LEDE, TITLE, fastest_table
from dlperf_sdk.reports.html.page import Folded, Item, Section, Sortable
from dlperf_sdk.reports.leads import explain_colors, explain_terms
from dlperf_sdk.reports.overview import overview

_PAGE_ROWS = 10


def section(rankings: Sequence[Ranking], unrivaled: Sequence[Ranking]) -> Section:
    """Return the section with a row per ranking; without items if there is no ranking.

    With more than ten rankings it begins with an overview of all topologies.

    Args:
        rankings: The rankings of the report's cases.
        unrivaled: The groups of the report's cases that have one framework only, from `analysis.ranking.unrivaled`, for
            the overview.
    """
    if not rankings:
        return Section(TITLE, ())
    filters = ("topology", "model", "batch", "precision", "settings")
    table = fastest_table(rankings)
    details = Sortable(table, filters, _PAGE_ROWS)
    if len(rankings) <= _PAGE_ROWS:
        items: tuple[Item, ...] = (
            *_paragraphs(explain_colors(table, rankings)),
            details,
            *_paragraphs(explain_terms(cell.text for row in table.rows for cell in row)),
        )
        return Section(TITLE, items, LEDE)
    summary, notes = overview(rankings, unrivaled)
    folded = Folded("Each comparison: versions, all others, and what is not comparable", (details,))
    items = (
        *_paragraphs(explain_colors(summary, rankings)),
        summary,
        notes,
        *_paragraphs(explain_terms(text.lower() for text in notes.texts)),
        folded,
    )
    return Section(TITLE, items, LEDE)


def _paragraphs(text: str) -> tuple[Paragraph, ...]:
    return (Paragraph(text, "quiet"),) if text else ()
