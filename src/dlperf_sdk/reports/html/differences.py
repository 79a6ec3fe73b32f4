"""The section on differences that prevent a comparison, between workloads and between the cases of one workload."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice

from dlperf_sdk.analysis.case import Case, key
from dlperf_sdk.analysis.comparison import Comparison, compare
from dlperf_sdk.analysis.effects import Effect
from dlperf_sdk.reports.blocks import Cell, Column, Table, Tone
from dlperf_sdk.reports.html.page import Item, Section, Sortable
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.reports.series import Workload
from dlperf_sdk.reports.sweeps import swept_size

_MAX_PAIRS = 300
"""Maximum number of pairs that are compared."""


_TONES: dict[str, Tone] = {"not comparable": "bad", "only in Effects": "doubt", "footnote": "doubt"}
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
        "Two numbers are compared only if they measure the same thing, or to estimate the effect of the setting in "
        "which they differ. A footnote names a further difference. Different models are never compared."
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
        relevant += [f"{name.replace('_', ' ')}: stated by one of them only" for name in unstated]
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
            for default, texts in (
                ("not comparable", comparison.reasons),
                ("footnote", comparison.footnotes),
            ):
                for text in map(_in_order, texts):
                    kind = "only in Effects" if default == "not comparable" and text in estimated else default
                    row_key = (kind, workload.title, text)
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
    return f"{name}: {' against '.join(sorted(values.split(' against ')))}"


def _fact(reason: str) -> str:
    return reason.partition(":")[0]
