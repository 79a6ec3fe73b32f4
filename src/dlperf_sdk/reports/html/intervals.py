"""The section on intervals: which numbers have one, why the others have none, and the rule of each kind."""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk.analysis.ranking import Ranking
from dlperf_sdk.reports.blocks import Column, Table
from dlperf_sdk.reports.html.page import Item, Section, Sortable
from dlperf_sdk.reports.missing_intervals import describe_leads_without_interval, tabulate_missing
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.reports.series import Merged

TITLE = "Intervals"
_PAGE_ROWS = 30


def section(merged: Sequence[Merged], rankings: Sequence[Ranking]) -> Section:
    """Return the folded section on intervals.

    One table counts the cases with an interval, and those without one by reason. Another states the minimum number of
    repeats for each kind of interval. Paragraphs give the reasons why leads have no interval.

    Args:
        merged: The cases of the report, with the runs of each case merged.
        rankings: The rankings of the report, whose leads have intervals.
    """
    with_interval = sum(run.low is not None for run in merged)
    with_repeats = sum(len(run.case.repeats) > 1 for run in merged)
    leads = sum(ranking.comparison.low is not None for ranking in rankings)
    rows = (
        (
            "one throughput",
            "six repeats",
            "the order statistics of fewer do not enclose the median with 95 %",
            f"{with_interval} of {len(merged)}",
        ),
        (
            "the ratio of two cases",
            "four repeats on each side",
            "the rank-sum test of fewer is never significant at 5 %",
            f"{leads} of {format_count(len(rankings), 'lead')}",
        ),
        (
            "the effect of a setting",
            "six frameworks, or a single pair with four repeats on each side",
            "the pairs of one framework are alike, and the sign test of fewer is never significant at 5 %",
            "in the table of effects",
        ),
    )
    columns = (Column("interval of", key=True), Column("takes at least"), Column("because"), Column("here"))
    lede = (
        f"The single repeats of {with_repeats:,} of {format_count(len(merged), 'case')} are known. A median without "
        "its repeats has no interval, however many repeats were made."
    )
    items: tuple[Item, ...] = (
        Sortable(tabulate_missing([run.case for run in merged]), ("framework", "implementation"), _PAGE_ROWS),
        *describe_leads_without_interval(rankings),
        Table(columns, rows, "The rule of each kind of interval"),
    )
    answer = f"{with_interval:,} of {format_count(len(merged), 'throughput')}"
    if rankings:
        answer += f" and {leads} of {format_count(len(rankings), 'lead')}"
    return Section(TITLE, items, lede, folded=True, answer=f"{answer} have an interval.")
