"""The outcomes of a gate: of each case, and of all cases together."""

from __future__ import annotations

from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.analysis.rank_test import Shift

REGRESSION, IMPROVEMENT, UNCHANGED, NOT_SLOWER, INCONCLUSIVE = (
    "regression",
    "improvement",
    "unchanged",
    "not-slower",
    "inconclusive",
)
"""Outcomes of cases that were compared."""
BROKEN, MENDED, REFUSED = "broken", "mended", "refused"
"""Outcomes of cases that one side cannot run, or whose two sides are not comparable."""
VANISHED, NEW, UNMEASURED, UNFINISHED = "vanished", "new", "unmeasured", "unfinished"
MISSING = (VANISHED, NEW, UNMEASURED, UNFINISHED)
"""Outcomes of cases that lack a number: on the candidate's side, on the baseline's, on both, or until a resume."""
FAILING = (REGRESSION, BROKEN)
"""Outcomes that close the gate."""
DECIDED = (*FAILING, IMPROVEMENT, UNCHANGED, NOT_SLOWER, INCONCLUSIVE, MENDED)
"""Outcomes that say something of the candidate. A gate without any has not been passed."""
_MOST_NAMES = 5
"""Missing cases that a sentence names."""


@frozen
class Decision:
    """One case."""

    name: str
    outcome: str
    detail: str
    """The reason, in a sentence."""
    shift: Shift | None = None
    """The candidate's throughput over the baseline's."""
    p: float | None = None
    """The p-value that it is slower, adjusted for the number of cases."""
    baseline: str | None = None
    candidate: str | None = None
    """The runs that were compared."""
    required_repeats: int | None = None
    """Repeats or runs per side, or pairs, that should decide an inconclusive case; None where nothing can be planned
    for."""
    basis: str | None = None
    """The design that the conclusion rests on."""
    differences: tuple[str, ...] = ()
    """Differences of the candidate from the baseline in context, and in factors that were compared."""
    is_expected: bool = False
    """True for a missing case that was named as such."""


@frozen
class Gate:
    """All cases."""

    decisions: tuple[Decision, ...]
    minimum_effect: float
    level: float
    unreadable: tuple[str, ...] = ()
    """Results that could not be read, each as the reason."""

    @property
    def missing(self) -> tuple[Decision, ...]:
        """The cases that lack a number and were not expected to."""
        return tuple(
            decision
            for decision in self.decisions
            if decision.outcome in MISSING and not decision.is_expected
        )

    @property
    def compared(self) -> int:
        """The number of cases whose throughputs were compared."""
        return sum(decision.shift is not None for decision in self.decisions)

    @property
    def exit_code(self) -> int:
        """Return the exit code of `dlperf gate`.

        1 with a regression or a case that works no more, else 2 where specs were refused or nothing compared, else 6
        with an inconclusive case, else 5 where a case is missing or a result was unreadable, else 0.
        """
        outcomes = {decision.outcome for decision in self.decisions}
        if outcomes & set(FAILING):
            return 1
        if REFUSED in outcomes or not outcomes & set(DECIDED):
            return 2
        if INCONCLUSIVE in outcomes:
            return 6
        return 5 if self.missing or self.unreadable else 0

    def describe_coverage(self) -> str:
        """Return how many cases were compared, and which were not, in a sentence."""
        parts = [f"{self.compared} of {len(self.decisions)} cases compared"]
        for outcome in (BROKEN, MENDED, REFUSED):
            count = sum(decision.outcome == outcome for decision in self.decisions)
            parts += [f"{count} {outcome}"] if count else []
        expected = [decision for decision in self.decisions if decision.is_expected]
        for decisions, name in ((self.missing, "missing"), (expected, "missing as expected")):
            if decisions:
                named = [f"{decision.name} ({decision.outcome})" for decision in decisions[:_MOST_NAMES]]
                if len(decisions) > _MOST_NAMES:
                    named.append(f"{len(decisions) - _MOST_NAMES} more")
                parts.append(f"{len(decisions)} {name}: {', '.join(named)}")
        if self.unreadable:
            parts.append(f"unreadable results: {len(self.unreadable)}")
        return "; ".join(parts) + "."

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "minimum_effect": self.minimum_effect,
            "level": self.level,
            "exit_code": self.exit_code,
            "coverage": self.describe_coverage(),
            "cases": len(self.decisions),
            "compared": self.compared,
            "missing": [decision.name for decision in self.missing],
            "unreadable": list(self.unreadable),
            "decisions": [attrs.asdict(decision) for decision in self.decisions],
        }
