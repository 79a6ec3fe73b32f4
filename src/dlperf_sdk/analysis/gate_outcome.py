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
BROKEN, MENDED, VANISHED, NEW, REFUSED, UNMEASURED = (
    "broken",
    "mended",
    "vanished",
    "new",
    "refused",
    "unmeasured",
)
FAILING = (REGRESSION, BROKEN)
"""Outcomes that close the gate."""
DECIDED = (*FAILING, IMPROVEMENT, UNCHANGED, NOT_SLOWER, INCONCLUSIVE, MENDED)
"""Outcomes that say something of the candidate. A gate without any has not been passed."""


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


@frozen
class Gate:
    """All cases."""

    decisions: tuple[Decision, ...]
    minimum_effect: float
    level: float

    @property
    def exit_code(self) -> int:
        """Return the exit code of `dlperf gate`.

        1 with a regression or a case that works no more, else 2 where specs were refused or nothing compared, else 6
        with an inconclusive case, else 0.
        """
        outcomes = {decision.outcome for decision in self.decisions}
        if outcomes & set(FAILING):
            return 1
        if REFUSED in outcomes or not outcomes & set(DECIDED):
            return 2
        return 6 if INCONCLUSIVE in outcomes else 0

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "minimum_effect": self.minimum_effect,
            "level": self.level,
            "exit_code": self.exit_code,
            "decisions": [attrs.asdict(decision) for decision in self.decisions],
        }
