"""The cases that a ranking leaves out, with the facts in which they differ, as text."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.analysis.ranking import Excluded, Ranking
from dlperf_sdk.reports.numbers import common_scale
from dlperf_sdk.reports.series import format_stated
from dlperf_sdk.spec.precision import PRECISIONS

_OWN_ROWS = ("precision", "hardware")
"""Facts whose cases have their own row in a report."""
_MAX_EXCLUDED = 6


def format_excluded(ranking: Ranking, shown_elsewhere: Collection[Case] = ()) -> str:
    """Return the cases that are not comparable with a ranking as text, grouped by the facts in which they differ.

    The text is one line such as `jax 310.2, torch 305.1 (no clipping); and 2 more`, where the numbers of the cases are
    throughputs. It is empty if there is no group. At most six groups are described; the number of the remaining groups
    follows. Of a group with another precision or other hardware, only the fastest case is named. Two kinds of groups
    are left out: those whose precision has another number format than the ranking's, and those that differ from the
    ranking in precision or hardware and in a further fact.

    Args:
        ranking: The ranking.
        shown_elsewhere: The fastest cases of groups that the report shows elsewhere; these groups are left out.
    """
    groups = [
        group
        for group in ranking.excluded
        if (len(group.differences) == 1 or not _has_own_row(name for name, _ in group.differences))
        and not any(group.cases[0] is case for case in shown_elsewhere)
        and not _has_another_format(ranking, group)
    ]
    texts = [_format_group(ranking, group) for group in groups[:_MAX_EXCLUDED]]
    remaining = len(groups) - len(texts)
    return "; ".join([*texts, *([f"and {remaining} more"] if remaining else [])])


def name_faster(ranking: Ranking) -> str:
    """Return the fastest case that a ranking leaves out, with the reason, if it is faster than all ranked cases.

    The text is such as `tensorflow (clip norm not stated)`. Cases of another precision or hardware, which have a
    ranking of their own, are not considered. The text is empty if no other case is faster.
    """
    groups = [group for group in ranking.excluded if not _has_own_row(name for name, _ in group.differences)]
    # The groups are in the order of their fastest cases.
    if not groups or groups[0].cases[0].throughput <= ranking.entries[0].throughput:
        return ""
    return f"{groups[0].cases[0].facts.get(ranking.factor)} ({_format_differences(groups[0])})"


def _has_another_format(ranking: Ranking, group: Excluded) -> bool:
    """Return True if the operands of a group's matrix products have another number format than the ranking's."""
    ranked, excluded = ranking.facts.get("precision"), group.cases[0].facts.get("precision")
    return bool(ranked and excluded and _format_of(ranked) != _format_of(excluded))


def _format_of(precision: str) -> str:
    """Return the number format of a precision; one that only a newer version knows counts as a format of its own."""
    return PRECISIONS[precision].format if precision in PRECISIONS else precision


def _format_group(ranking: Ranking, group: Excluded) -> str:
    scale = common_scale([case.throughput for case in group.cases], "")
    # Cases of another precision or hardware have their own row, so only the fastest is named.
    selected = group.cases[:1] if _has_own_row(name for name, _ in group.differences) else group.cases
    named = ", ".join(f"{_name(ranking, case)} {scale.format_alone(case.throughput)}" for case in selected)
    return f"{named} ({_format_differences(group)})"


def _name(ranking: Ranking, case: Case) -> str:
    """Return a case's level of the ranking's factor; a framework with its version if another version is ranked."""
    level, version = case.facts.get(ranking.factor), case.facts.get("framework_version")
    versions = {
        entry.facts.get("framework_version")
        for entry in ranking.entries
        if entry.facts.get("framework") == level
    }
    return f"{level} {version}" if versions and version not in versions else str(level)


def _format_differences(group: Excluded) -> str:
    return ", ".join(format_stated(*difference) for difference in group.differences)


def _has_own_row(names: Iterable[str]) -> bool:
    return not set(_OWN_ROWS).isdisjoint(names)
