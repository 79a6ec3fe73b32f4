"""The reasons why a throughput or a lead has no interval, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.analysis.ranking import Ranking
from dlperf_sdk.reports.blocks import Cell, Column, Paragraph, Table
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.worker.estimate import median, median_interval, standard_deviation


def explain_missing(case: Case) -> str:
    """Return the reason why the throughput of a case has no interval, as a clause; empty if it has one.

    The clause is such as `it was measured once`.
    """
    known, repeats = len(case.repeats), case.protocol.repeats
    if known and median_interval(case.repeats) is not None:
        return ""
    if repeats == 1 or (known == 1 and repeats is None):
        return "it was measured once"
    if known:
        return f"{format_count(known, 'repeat')} known, and an interval takes six"
    if repeats is None:
        return "only one number is published, and not the number of repeats"
    return f"{repeats} repeats were made, and only their median is published"


def spread(repeats: Sequence[float]) -> float | None:
    """Return the standard deviation between repeats as a fraction of their median; None with fewer than two repeats.

    `repeats` are the repeats' throughputs, which are positive.
    """
    return standard_deviation(repeats) / median(repeats) if len(repeats) > 1 else None


def tabulate_missing(cases: Sequence[Case]) -> Table:
    """Return a table of how many cases have an interval of their throughput, and of how many lack one, and why.

    Each framework, version and implementation has a row for its cases with an interval, and one for each reason why
    others lack it. A row has the number of its cases. The rows are sorted by framework, version and implementation;
    columns without content are left out.
    """
    names = ("framework", "framework_version", "implementation")
    counts = Counter(
        ((*(str(case.facts.get(name, "")) for name in names),), explain_missing(case)) for case in cases
    )
    rows: list[tuple[Cell | str, ...]] = [
        (*facts, str(count), Cell(f"no: {reason}", "quiet") if reason else Cell("yes", "good"))
        for (facts, reason), count in sorted(counts.items())
    ]
    columns = (
        Column("framework", key=True),
        Column("version", key=True),
        Column("implementation", key=True),
        Column("cases", right=True),
        Column("interval of the throughput"),
    )
    return Table(columns, tuple(rows), "Which throughputs have an interval").without_empty_columns()


def describe_leads_without_interval(rankings: Sequence[Ranking]) -> tuple[Paragraph, ...]:
    """Return a paragraph on the reasons why leads have no interval; an empty tuple if all have one."""
    missing = [ranking.comparison for ranking in rankings if ranking.comparison.low is None]
    if not missing:
        return ()
    unknown = sum(not (compared.a.repeats and compared.b.repeats) for compared in missing)
    too_few = len(missing) - unknown
    reasons = [
        *([f"in {unknown} the single repeats of one side or both are not known"] if unknown else []),
        *([f"in {too_few} one side has fewer than four repeats"] if too_few else []),
    ]
    total = format_count(len(rankings), "lead")
    return (Paragraph(f"{len(missing)} of {total} have no interval: {', '.join(reasons)}."),)
