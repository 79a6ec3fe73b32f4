"""The section on differences that prevent a comparison, between workloads and between the cases of one workload."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations, islice
from typing import Any

from dlperf_sdk.analysis.case import Case, key
from dlperf_sdk.analysis.comparison import RESERVED_FACTS, Comparison, compare
from dlperf_sdk.analysis.effects import Effect
from dlperf_sdk.reports.blocks import Cell, Column, Table, Tone
from dlperf_sdk.reports.html.page import NOT_COMPARABLE, Item, Section, Sortable
from dlperf_sdk.reports.leads import RULE
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.reports.series import Workload, format_stated
from dlperf_sdk.reports.sweeps import SIZES
from dlperf_sdk.reports.wording import format_name, format_value
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.table import alternatives

_MAX_PAIRS = 300
"""Maximum number of pairs that are compared."""


_OTHER_WORK = "It is part of the workload: another value is other work."
_REASONS = {
    "precision": "Each rounds other values. Mixed precision (amp) has short numbers in products only; "
    f"{alternatives(declared.name for declared in PRECISIONS if declared.is_pure)} also stores weights, activations "
    "and gradients in its format, which is less work.",
    "model": "Each is other work, and so are variants of one network, such as v1.5 (resnet50) and v1b.",
    "clip_norm": "Clipping computes the norm of all gradients in each step. Where the source does not state it, "
    "gradients may or may not have been clipped.",
}
"""Fact → why its values are never ranked together."""
_TONES: dict[str, Tone] = {
    "not comparable": "bad",
    "only in Effects": "doubt",
    "with a reservation": "doubt",
    "footnote": "quiet",
}
"""What a difference means for a comparison, in the order of the table's rows → its tone."""


def section(workloads: Sequence[Workload], estimates: Sequence[Effect] = ()) -> Section:
    """Return the section on differences between cases; it has no items if the cases do not differ.

    One table has the facts whose values are never ranked together, such as the precision. Another has the differences
    between cases of one workload on the same topology, each with the number of pairs; of each workload, at most 300
    pairs are compared.

    Args:
        workloads: The workloads with their cases.
        estimates: Effects that the report estimates. A difference between the two levels of such an effect is marked
            `only in Effects` instead of `not comparable`.
    """
    items = [
        item
        for item in (_never_ranked_table(workloads), _within_workloads_table(workloads, estimates))
        if item is not None
    ]
    lede = (
        f"{RULE} The effect of a setting is estimated from pairs that differ in this setting. A footnote names a "
        "further difference. Different models are never compared."
    )
    return Section(NOT_COMPARABLE, tuple(items), lede)


def _never_ranked_table(workloads: Sequence[Workload]) -> Table | None:
    """Return a table of the facts whose values are never ranked together, with the reasons; None if none differs.

    Sizes are left out: they have sweeps.
    """
    by_model: dict[str, list[Case]] = {}
    for workload in workloads:
        by_model.setdefault(str(workload.facts.get("model")), []).extend(workload.cases)
    rows = [("model", ", ".join(by_model), _REASONS["model"])] if len(by_model) > 1 else []
    names = dict.fromkeys(("precision", *(name for workload in workloads for name in workload.facts)))
    for name in (name for name in names if name not in {"model", *SIZES}):
        values: dict[str, Any] = {}
        for members in by_model.values():
            of_model = {key(case.facts.get(name)): case.facts.get(name) for case in members}
            values |= of_model if len(of_model) > 1 else {}
        if values:
            texts = [format_stated(name, value) for value in values.values()]
            rows.append((format_name(name), ", ".join(texts), _REASONS.get(name, _OTHER_WORK)))
    if not rows:
        return None
    columns = (Column("fact", whole=True), Column("values"), Column("why"))
    return Table(columns, tuple(rows), "Never ranked together, though each is a valid measurement")


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
    in_words = sorted(format_value(name, value) for value in values.split(" against "))
    return f"{format_name(name)}: {' against '.join(in_words)}"


def _fact(reason: str) -> str:
    return reason.partition(":")[0]
