"""Outcomes of a gate, for each case and for all cases together."""

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
"""Outcomes of cases that only the baseline can run, that only the candidate can run, and that are not comparable."""
VANISHED, NEW, UNMEASURED, UNFINISHED = "vanished", "new", "unmeasured", "unfinished"
MISSING = (VANISHED, NEW, UNMEASURED, UNFINISHED)
"""Outcomes of cases without a number: on the candidate's side, on the baseline's, on both, or until the run is
resumed."""
FAILING = (REGRESSION, BROKEN)
"""Outcomes that make the gate fail."""
DECIDED = (*FAILING, IMPROVEMENT, UNCHANGED, NOT_SLOWER, INCONCLUSIVE, MENDED)
"""Outcomes that tell something about the candidate. A gate without any of them has not passed."""
_MOST_NAMES = 5
"""Maximum number of missing cases that the coverage names."""


@frozen
class Decision:
    """Decision on one case."""

    name: str
    """Name of the case."""
    outcome: str
    """Outcome of the case: `regression`, `improvement`, `unchanged`, `not-slower`, `inconclusive`, `broken`, `mended`,
    `refused`, `vanished`, `new`, `unmeasured` or `unfinished`."""
    detail: str
    """Reason, as a sentence."""
    shift: Shift | None = None
    """Throughput of the candidate divided by that of the baseline, with its interval; None if they were not
    compared."""
    p: float | None = None
    """p-value of the test that the candidate is slower, adjusted for the number of cases; None without a comparison."""
    baseline: str | None = None
    """Name of the baseline's run, the newest one; None without one."""
    candidate: str | None = None
    """Name of the candidate's run, the newest one; None without one."""
    required_repeats: int | None = None
    """Repeats or runs per side, or pairs, that should decide an inconclusive case. None for any other outcome,
    and with a minimum effect of 0."""
    basis: str | None = None
    """Design that the conclusion rests on; None without a comparison."""
    differences: tuple[str, ...] = ()
    """Differences of the candidate from the baseline in context, and in factors that were compared."""
    is_expected: bool = False
    """True for a missing case that was expected to be missing."""


@frozen
class Gate:
    """Decisions on all cases."""

    decisions: tuple[Decision, ...]
    """A decision for each case."""
    minimum_effect: float
    """The smallest slowdown that counts, as a fraction."""
    level: float
    """Probability of a false alarm in at least one case."""
    unreadable: tuple[str, ...] = ()
    """Results that could not be read; the reason for each."""

    @property
    def missing(self) -> tuple[Decision, ...]:
        """Decisions on the cases that lack a throughput on one side or both; cases expected to lack it are left out."""
        return tuple(
            decision
            for decision in self.decisions
            if decision.outcome in MISSING and not decision.is_expected
        )

    @property
    def compared(self) -> int:
        """Number of cases whose throughputs were compared."""
        return sum(decision.shift is not None for decision in self.decisions)

    @property
    def exit_code(self) -> int:
        """Exit code of `dlperf gate`.

        The first of these that applies:

        - 1: a case is slower, or failed after it had worked before.
        - 2: a comparison was refused, or no case at all was compared.
        - 6: a comparison is inconclusive.
        - 5: a case is missing, or a result is unreadable.
        - 0: none of these.
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
        """Return a sentence about the number of cases that were compared, and about those that were not.

        The sentence states the numbers of cases that only the baseline can run (`broken`), that only the candidate can
        run (`mended`) and that are not comparable (`refused`), and the number of unreadable results. It names the first
        five missing cases, and the first five of those that were expected to be missing.
        """
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
        """Return the gate as JSON values.

        The keys are `minimum_effect` (a fraction: 0.05 for 5 %), `level`, `exit_code`, `coverage` (a sentence), `cases`
        (their number), `compared` (how many of them were compared), `missing` (a list of names), `unreadable` (a list
        of reasons) and `decisions` (a list with an object per decision, which has the fields of `Decision`).
        """
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
