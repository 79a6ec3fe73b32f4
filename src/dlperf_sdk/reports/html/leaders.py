"""The section on the fastest framework of each topology, batch size and precision."""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk.analysis.ranking import Ranking
from dlperf_sdk.reports.fastest import LEDE, TITLE, fastest_table, overview_table
from dlperf_sdk.reports.html.page import Folded, Section, Sortable

_PAGE_ROWS = 10


def section(rankings: Sequence[Ranking]) -> Section:
    """Return the section with a row per ranking; without items if there is no ranking.

    With more than ten rankings it begins with an overview of all topologies.
    """
    if not rankings:
        return Section(TITLE, ())
    filters = ("topology", "model", "batch", "precision", "also equal")
    table = Sortable(fastest_table(rankings), filters, _PAGE_ROWS)
    if len(rankings) <= _PAGE_ROWS:
        return Section(TITLE, (table,), LEDE)
    details = Folded("Each comparison: versions, all others, and what is not compared", (table,))
    return Section(TITLE, (overview_table(rankings), details), LEDE)
