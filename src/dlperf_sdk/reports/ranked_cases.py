"""Words that tell the cases of a ranking apart besides their frameworks: implementation, strategy and loader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dlperf_sdk.analysis.case import LOADER_FACTS, Case
from dlperf_sdk.analysis.ranking import Ranking


def list_settings(ranking: Ranking, compared: Sequence[Case]) -> list[tuple[str, str]]:
    """Return the strategy and the facts of the loader that cases of a ranking share, as (name of the fact, value).

    A fact is left out if these cases differ in it or do not state it. It is also left out if no framework of these
    cases was measured with several values of it, in the ranking or in a case that the ranking excludes.

    Args:
        ranking: The ranking.
        compared: The cases to consider, at least one, all of the ranking.
    """
    measured = [*ranking.cases, *(case for group in ranking.excluded for case in group.cases)]
    settings = []
    for name in ("strategy", *LOADER_FACTS):
        values: dict[str, set[str]] = {}
        for case in measured:
            if name in case.facts:
                values.setdefault(_framework(case), set()).add(str(case.facts[name]))
        is_chosen = any(len(values.get(_framework(case), ())) > 1 for case in compared)
        shared = {str(case.facts.get(name, "")) for case in compared}
        if is_chosen and len(shared) == 1 and "" not in shared:
            settings.append((name, shared.pop()))
    return settings


def describe_implementation(case: Case, rankings: Iterable[Ranking]) -> str:
    """Return the implementation of a case in parentheses with a leading space: ` (tensorpack)`; may be empty.

    The text is empty if the framework's name contains that of the implementation. It is also empty unless every
    framework in the rankings has a single implementation, and every implementation a single framework.

    Args:
        case: A case of the rankings.
        rankings: All rankings.
    """
    implementation = str(case.facts.get("implementation", ""))
    if implementation in _framework(case):
        return ""
    pairs = {
        (_framework(other), str(other.facts.get("implementation", "")))
        for ranking in rankings
        for other in ranking.cases
    }
    is_one_to_one = all(len({pair[side] for pair in pairs}) == len(pairs) for side in (0, 1))
    return f" ({implementation})" if is_one_to_one else ""


def _framework(case: Case) -> str:
    return str(case.facts.get("framework"))
