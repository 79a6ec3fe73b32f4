"""The section on differences that prevent a comparison, between workloads and between the cases of one workload."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations, islice

from dlperf_sdk.analysis.case import Case, key
from dlperf_sdk.analysis.comparison import RESERVED_FACTS, Comparison, compare
from dlperf_sdk.analysis.effects import Effect
from dlperf_sdk.reports.blocks import Cell, Column, Table, Tone
from dlperf_sdk.reports.html.page import Item, Section, Sortable
from dlperf_sdk.reports.leads import RULE
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.reports.series import Workload
from dlperf_sdk.reports.sweeps import swept_size
from dlperf_sdk.reports.wording import format_name

_MAX_PAIRS = 300
"""Maximum number of pairs that are compared."""


_TONES: dict[str, Tone] = {
    "not comparable": "bad",
    "only in Effects": "doubt",
    "with a reservation": "doubt",
    "footnote": "quiet",
}
"""What a difference means for a comparison, in the order of the table's rows → its tone."""


def section(workloads: Sequence[Workload], estimates: Sequence[Effect] = ()) -> Section:
    """Return the section on differences between cases; it has no items if the cases do not differ.

    One table has the reasons why pairs of workloads are not comparable. Another has the differences between cases
    of one workload on the same topology, each with the number of pairs.

    Args:
        workloads: The workloads.
        estimates: Effects that the report estimates: a difference between their levels is compared there.
    """
    items = [
        item
        for item in (_between_workloads_table(workloads), _within_workloads_table(workloads, estimates))
        if item is not None
    ]
    lede = (
        f"{RULE} The effect of a setting is estimated from pairs that differ in this setting. A footnote names a "
        "further difference. Different models are never compared."
    )
    return Section("What is not comparable", tuple(items), lede)


def _between_workloads_table(workloads: Sequence[Workload]) -> Item | None:
    """Return a table of why pairs of workloads cannot be compared, by the first case of each.

    None if there are fewer than two workloads.
    """
    pairs = islice(combinations(workloads, 2), _MAX_PAIRS)
    rows = []
    for first, second in pairs:
        # Nobody compares two models, or two sizes of a sweep.
        if swept_size(_differing(first, second)) or "model" in _differing(first, second):
            continue
        reasons = compare(first.merged[0].case, second.merged[0].case, footnoted=True).reasons
        relevant = [reason for reason in reasons if _fact(reason) in {*first.facts, *second.facts, "unit"}]
        unstated = sorted(set(first.facts) ^ set(second.facts))
        relevant = [_in_order(reason) for reason in relevant]
        relevant += [f"{format_name(name)}: stated by one of them only" for name in unstated]
        rows.append((first.title, second.title, "; ".join(relevant)))
    if not rows:
        return None
    columns = (Column("workload"), Column("and"), Column("because"))
    return Sortable(Table(columns, tuple(rows), "Workloads that are never in one plot"))


def _differing(first: Workload, second: Workload) -> set[str]:
    names = {*first.facts, *second.facts}
    return {name for name in names if key(first.facts.get(name)) != key(second.facts.get(name))}


def _within_workloads_table(workloads: Sequence[Workload], estimates: Sequence[Effect]) -> Item | None:
    """Return a table of the differences within each workload other than the factors, fact by fact; None if empty."""
    estimated = {
        _in_order(f"{estimate.factor}: {' against '.join(map(str, estimate.levels))}")
        for estimate in estimates
    }
    counts: dict[tuple[str, str, str], int] = {}
    for workload in workloads:
        for comparison in islice(_pair_cases(workload.cases), _MAX_PAIRS):
            differences = [(_kind(reason, estimated), reason) for reason in comparison.reasons]
            differences += [("footnote", footnote) for footnote in comparison.footnotes]
            for kind, text in differences:
                row_key = (kind, workload.title, _in_order(text))
                counts[row_key] = counts.get(row_key, 0) + 1
    if not counts:
        return None
    rows = [
        (
            Cell(kind, _TONES[kind]),
            title,
            text,
            f"{count:,}",
        )
        for (kind, title, text), count in sorted(
            counts.items(), key=lambda item: (list(_TONES).index(item[0][0]), -item[1])
        )
    ]
    columns = (Column("", whole=True), Column("workload"), Column("difference"), Column("pairs", right=True))
    title = f"{format_count(len(rows), 'difference')} between cases of one workload on as many devices"
    return Sortable(Table(columns, tuple(rows), title), ("", "workload"))


def _kind(reason: str, estimated: Collection[str]) -> str:
    """Return what a difference means: the same words as in the ranking, which has only some of these pairs."""
    if _fact(reason) in RESERVED_FACTS:
        return "with a reservation"
    return "only in Effects" if _in_order(reason) in estimated else "not comparable"


def _pair_cases(cases: Iterable[Case]) -> Iterator[Comparison]:
    """Return pairs of cases on the same topology."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(str(case.topology), []).append(case)
    for group in groups.values():
        for first, second in combinations(group, 2):
            yield compare(first, second, footnoted=True)


def _in_order(difference: str) -> str:
    """Return a difference with its two values in order, so that both directions are one row."""
    name, _, values = difference.partition(": ")
    return f"{format_name(name)}: {' against '.join(sorted(values.split(' against ')))}"


def _fact(reason: str) -> str:
    return reason.partition(":")[0]
