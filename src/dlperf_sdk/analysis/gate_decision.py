"""Decisions on the cases of a gate: slower, not slower, or neither shown.

Two error rates hold for all cases of a gate together. If nothing changed, the gate fails in at most `level` of
all comparisons (Holm's procedure). If a case is slower by the minimum effect or more, the gate passes in at most
`level` of them, since every case must rule out such a slowdown (an intersection-union test). Data that show
neither are inconclusive.

The assumptions depend on the design, the `basis` of a decision. Interleaved pairs need no assumption about the
machine. Separate runs assume exchangeable units. With repeats as units, the machine must be in the same state for
both sides. With runs as units, the offsets of runs must be alike on both sides.

Source: R. L. Berger and J. C. Hsu, Bioequivalence trials, intersection-union tests and equivalence confidence sets,
Statistical Science 11 (1996), 283-319.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from attrs import frozen

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.analysis.gate_outcome import (
    IMPROVEMENT,
    INCONCLUSIVE,
    NOT_SLOWER,
    REGRESSION,
    UNCHANGED,
    Decision,
)
from dlperf_sdk.analysis.rank_test import RankTest, Shift
from dlperf_sdk.analysis.significance import holm_adjusted

INTERLEAVED = "interleaved in one run"
SEPARATE_REPEATS = "two separate runs; day-to-day offsets are not covered"
SEPARATE_RUNS = "several separate runs per side, each of which is one unit"

MOST_UNITS = 50
"""Largest number of units that is suggested: over hours of measuring, no machine stays the same."""
MOST_LONGER = 20
"""Largest factor by which longer repeats are suggested."""
MOST_PERCENT = 25
"""Largest minimum effect that is suggested instead, in percent."""


@frozen
class Pairing:
    """A case on both sides, with the test for its design."""

    name: str
    """Name of the case."""
    baseline: Case
    """The case before the change."""
    candidate: Case
    """The case after the change."""
    test: RankTest
    """Test of the ratio of the candidate's throughput to the baseline's."""
    basis: str
    """`INTERLEAVED`, `SEPARATE_REPEATS` or `SEPARATE_RUNS`."""
    differences: tuple[str, ...] = ()
    """Differences between both sides, to be listed with the decision."""


def decide_cases(
    pairings: Mapping[str, Pairing], *, minimum_effect: float, level: float
) -> dict[str, Decision]:
    """Return the decision on each case of a gate: key of `pairings` → decision, in the order of `pairings`.

    The p-values of all cases are adjusted together.

    Args:
        pairings: Any key → the case on both sides, with its test.
        minimum_effect: The smallest slowdown that counts, as a fraction from 0 to below 1.
        level: The probability of a false alarm in at least one case, above 0 and below 0.5.
    """
    tests = [pairing.test for pairing in pairings.values()]
    slower = holm_adjusted([test.p("less") for test in tests])
    faster = holm_adjusted([test.p("greater") for test in tests])
    p_values = zip(slower, faster, strict=True)
    return {
        key: _decide(pairing, p=p, comparisons=len(pairings), minimum_effect=minimum_effect, level=level)
        for (key, pairing), p in zip(pairings.items(), p_values, strict=True)
    }


def _decide(
    pairing: Pairing, *, p: tuple[float, float], comparisons: int, minimum_effect: float, level: float
) -> Decision:
    """Decide a case from the p-values `p` that it is slower and that it is faster."""
    test = pairing.test
    shift = test.shift(2 * level)
    low, high = 1 - minimum_effect, 1 + minimum_effect
    above_low = test.p("greater", low) <= level
    below_high = test.p("less", high) <= level
    percent, limit = 100 * (shift.ratio - 1), f"{100 * minimum_effect:g} %"
    change = f"{abs(percent):.1f} % {'slower' if percent < 0 else 'faster'}"
    evidence = f"{_interval(shift, level, test.unit)}; {{}}{test.sizes}, {pairing.basis}"
    slower, faster = (f"p {value:.2g}, " for value in p)
    required = None
    if shift.ratio <= low and p[0] <= level:
        outcome, detail = REGRESSION, f"{change} ({evidence.format(slower)})."
    elif shift.ratio >= high and p[1] <= level:
        outcome, detail = IMPROVEMENT, f"{change} ({evidence.format(faster)})."
    elif above_low and below_high:
        outcome, detail = UNCHANGED, f"{change}; a change of {limit} is ruled out ({evidence.format('')})."
    elif above_low:
        outcome, detail = NOT_SLOWER, f"{change}; a slowdown of {limit} is ruled out ({evidence.format('')})."
    else:
        required = _required_units(test, minimum_effect, level / comparisons)
        # The interval belongs to this case alone; only the p-value is adjusted for the number of cases.
        if shift.ratio <= low and test.p("less") <= level:
            finding = f"that is significant for this case alone, but not among {comparisons} cases"
        else:
            finding = f"a slowdown of {limit} is neither shown nor ruled out"
        detail = f"{change}; {finding} ({evidence.format(slower)})."
        detail += f" {_advise(pairing, required, minimum_effect, level / comparisons)}"
        outcome = INCONCLUSIVE
    names = pairing.baseline.name, pairing.candidate.name
    return Decision(
        pairing.name, outcome, detail, shift, p[0], *names, required, pairing.basis, pairing.differences
    )


def _advise(pairing: Pairing, required: int | None, effect: float, level: float) -> str:
    """Return a sentence of advice on how to decide an inconclusive case."""
    test = pairing.test
    if required is None:
        return f"No number of {test.unit}s rules out a slowdown of 0 %: set a minimum effect."
    side = "" if test.unit == "pair" else " per side"
    units = f"{required} {test.unit}s{side}"
    if required <= MOST_UNITS:
        return f"Measure at least {units}."
    remedies = [] if test.unit == "run" else _longer_repeats(pairing, effect, level)
    # A longer repeat does not change how runs differ.
    limit = "" if remedies or test.unit == "run" else f", also with repeats {MOST_LONGER} times as long"
    if test.unit != "pair":
        remedies.append("interleave both sides (dlperf gate CASES --against BASELINE)")
    for percent in range(math.floor(100 * effect) + 1, MOST_PERCENT + 1):
        count = test.units_to_detect(percent / 100, level)
        if count <= MOST_UNITS:
            remedies.append(f"raise the minimum effect to {percent} %, which takes {count}")
            break
    if not remedies:
        return (
            f"Deciding it takes about {units}, which is impractical{limit}: find what makes the repeats vary."
        )
    *earlier, last = remedies
    choice = f"{', '.join(earlier)}, or {last}" if earlier else last
    return f"Deciding it takes about {units}, which is impractical{limit}: {choice}."


def _longer_repeats(pairing: Pairing, effect: float, level: float) -> list[str]:
    """Return the remedy of longer repeats, in a list; empty if none of up to `MOST_LONGER` times the length is one."""
    test, steps = pairing.test, pairing.baseline.protocol.steps
    for longer in range(2, MOST_LONGER + 1):
        count = test.units_to_detect(effect, level, longer=longer)
        if count <= MOST_UNITS:
            units = "pairs of repeats" if test.unit == "pair" else "repeats per side"
            length = "" if steps is None else f"{longer * steps:,} steps; "
            return [
                f"measure {count} {units} that are {longer} times as long ({length}this assumes independent steps)"
            ]
    return []


def _interval(shift: Shift, level: float, unit: str) -> str:
    if shift.low is None or shift.high is None:
        return f"no interval from so few {unit}s"
    ends = f"{100 * (shift.low - 1):+.1f} to {100 * (shift.high - 1):+.1f} %"
    return f"{100 * (1 - 2 * level):g} % interval {ends}"


def _required_units(test: RankTest, effect: float, level: float) -> int | None:
    """Return the number of units that should decide a case; None if the effect is 0.

    If that many were measured already, the ratio is close to a limit, and twice as many are returned.
    """
    if effect == 0:
        return None
    planned = test.units_to_detect(effect, level)
    return planned if planned > test.unit_count else 2 * test.unit_count
