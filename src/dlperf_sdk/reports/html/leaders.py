"""Show which framework is fastest at each topology, batch size and precision."""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk.analysis.ranking import Ranking
from dlperf_sdk.reports.fastest import LEDE, TITLE, fastest_table
from dlperf_sdk.reports.html.page import Section, Sortable

_PAGE_ROWS = 10


def section(rankings: Sequence[Ranking]) -> Section:
    """Return a row per ranking, to be filtered by topology, model, batch size and precision."""
    if not rankings:
        return Section(TITLE, ())
    filters = ("topology", "model", "batch", "precision", "also equal")
    return Section(TITLE, (Sortable(fastest_table(rankings), filters, _PAGE_ROWS),), LEDE)
