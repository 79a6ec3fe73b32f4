"""The section on the verdicts: every check of every result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dlperf_sdk.reports import labels
from dlperf_sdk.reports.blocks import Cell, Column, Table
from dlperf_sdk.reports.html.page import Section, Sortable
from dlperf_sdk.reports.html.results import names
from dlperf_sdk.results.result import FAIL, INCONCLUSIVE, INTEGRITY, NOT_APPLICABLE, PASS, Result

_OUTCOMES = (PASS, FAIL, INCONCLUSIVE, NOT_APPLICABLE)

_PAGE_ROWS = 10


def section(results: Sequence[Result]) -> Section:
    """Return the section on verdicts; without items if no result has any.

    One table counts the outcomes of each check, another has the outcome of each check for each result. Validity checks
    come first.
    """
    kinds: dict[str, str] = {}
    for result in results:
        for verdict in result.verdicts:
            kinds.setdefault(verdict.name, verdict.kind)
    if not kinds:
        return Section("Verdicts", ())
    checks = sorted(kinds, key=lambda name: kinds[name] != INTEGRITY)
    counts: dict[str, Counter[str]] = {name: Counter() for name in checks}
    rows = []
    for name, result in zip(names(results), results, strict=True):
        outcomes = {verdict.name: verdict.outcome for verdict in result.verdicts}
        for check, outcome in outcomes.items():
            counts[check][outcome] += 1
        rows.append(
            (name, *(labels.mark_outcome(outcomes[check]) if check in outcomes else "" for check in checks))
        )
    tally = [
        (
            name,
            "validity" if kinds[name] == INTEGRITY else "quality",
            *(_count(counts[name][outcome], outcome) for outcome in _OUTCOMES),
        )
        for name in checks
    ]
    heads = (Column("check"), Column("kind"), *(Column(outcome, right=True) for outcome in _OUTCOMES))
    matrix = Table(
        (Column("case"), *(Column(name, whole=True) for name in checks)), tuple(rows), "Every case"
    )
    lede = "A failed validity check makes the number invalid; a quality check rates a valid one."
    return Section(
        "Verdicts",
        (Table(heads, tuple(tally), "How often"), Sortable(matrix, tuple(checks), _PAGE_ROWS)),
        lede,
    )


def _count(count: int, outcome: str) -> Cell:
    return Cell(f"{count:,}", labels.mark_outcome(outcome).tone if count else "quiet")
