"""The section on how many repeats an interval takes: each kind of number has a rule of its own."""

from __future__ import annotations

from collections.abc import Sequence

from dlperf_sdk.analysis.ranking import Ranking
from dlperf_sdk.reports.blocks import Column, Paragraph, Table
from dlperf_sdk.reports.html.page import Section
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.reports.series import Merged

TITLE = "When there is an interval"


def section(merged: Sequence[Merged], rankings: Sequence[Ranking]) -> Section:
    """Return the section with the rule of each kind of interval, and how many numbers of the report have one.

    Args:
        merged: The merged cases, whose throughputs the report has.
        rankings: The rankings, whose leads the report has.
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
    text = f"The single repeats of {with_repeats:,} of {format_count(len(merged), 'case')} are known."
    return Section(TITLE, (Table(columns, rows), Paragraph(text, "quiet")), folded=True)
