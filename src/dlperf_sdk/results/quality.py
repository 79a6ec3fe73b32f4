"""Measurement quality: the quality verdicts, which are shown and do not decide the exit code."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dlperf_sdk.results import metrics
from dlperf_sdk.results.records import Repeat
from dlperf_sdk.results.result import FAIL, INCONCLUSIVE, NOT_APPLICABLE, PASS, QUALITY, Verdict
from dlperf_sdk.results.trend import BLOCKS, pooled, trends
from dlperf_sdk.spec.protocol import Protocol
from dlperf_sdk.worker import estimate

SPREAD = 0.02
"""Largest standard deviation between repeats that passes, as a fraction of the median."""
DRIFT = 0.02
"""Least drift over the window that matters, as a fraction of the median step."""
SIGNIFICANCE = 0.01
"""Of the test for a drift that all repeats share, and of the tests of the single repeats taken together."""
PREFETCHED = 0.1
"""Most of the window that the input pipeline may have ready before it begins."""
SKIPPED = 0.05
"""Most of the window's steps that the loss scaler may skip: a skipped step does not update, and is faster."""


def steady_state(repeats: tuple[Repeat, ...]) -> Verdict:
    """The window is long enough, holds little that was prepared before it, and its steps do not drift.

    A drift is reported where it is both large enough to matter and significant: over all repeats together, or
    in one of them. By simulation, noise without a drift is taken for one in at most 2 % of the cases of seven
    repeats of 100 steps, also where neighbouring steps are correlated (autoregressive, up to 0.9), and in at
    most 8 % of one to three repeats of 20 steps. A drift of 3 % under a noise of 1 % is found in nine cases
    of ten of three repeats of 20 steps, and practically always in seven of 100.

    Up and down again is no drift: only what rises or falls on the whole is looked for.
    """
    reasons = list(_unsteady(repeats))
    if reasons:
        return Verdict("steady-state", QUALITY, INCONCLUSIVE, " ".join(reasons))
    shared = pooled(trends([metrics.step_times(repeat) for repeat in repeats]))
    noise = "" if abs(shared.drift) < DRIFT else f"; their noise explains it (p = {shared.p_value:.1g})"
    detail = f"Over the window the step time changes by {100 * shared.drift:+.2f} % (median of the repeats){noise}."
    return Verdict("steady-state", QUALITY, PASS, detail)


def _unsteady(repeats: tuple[Repeat, ...]) -> Iterator[str]:
    times = [metrics.step_times(repeat) for repeat in repeats]
    steps = min(map(len, times), default=0)
    if steps < BLOCKS:
        yield f"The window has {steps} steps; it takes {BLOCKS} to see whether they drift."
        return
    records = [record for repeat in repeats for record in repeat.records]
    prefetched = max(record.prefetched_batches for record in records)
    if prefetched > PREFETCHED * steps:
        yield (
            f"The input pipeline may hold {prefetched} batches ready, for a window of {steps} steps; take at "
            f"least {math.ceil(prefetched / PREFETCHED)} steps."
        )
    skipped = max(record.skipped_steps for record in records)
    if skipped > SKIPPED * steps:
        yield f"The loss scaler skipped {skipped} of {steps} steps; a longer warm-up lets it settle."
    found = trends(times)
    shared = pooled(found)
    if abs(shared.drift) >= DRIFT and shared.p_value <= SIGNIFICANCE:
        yield (
            f"In all repeats together the step time drifts by {100 * shared.drift:+.1f} % over the window "
            f"(p = {shared.p_value:.1g}); a longer warm-up may settle it."
        )
        return
    for repeat, trend in zip(repeats, found, strict=True):
        if abs(trend.drift) >= DRIFT and trend.p_value <= SIGNIFICANCE / len(repeats):
            yield (
                f"In attempt {repeat.attempt} the step time drifts by {100 * trend.drift:+.1f} % over the "
                f"window (p = {trend.p_value:.1g})."
            )
            return


def spread(repeats: tuple[Repeat, ...]) -> Verdict:
    """Check the relative standard deviation between repeats, as estimated from their mean difference.

    The estimate does not grow with the number of repeats. By simulation with normal noise, 3, 7 and 12 repeats fail at
    a standard deviation of 1 % in 4, 0 and 0 % of cases, at 2 % in 46, 48 and 48 %, and at 4 % in 82, 97 and 100 %.
    """
    if len(repeats) < 2:
        return Verdict("spread", QUALITY, INCONCLUSIVE, "One repeat has no spread.")
    rates = [metrics.throughput(repeat) for repeat in repeats]
    deviation = estimate.standard_deviation(rates) / estimate.median(rates)
    detail = (
        f"The standard deviation between {len(rates)} repeats is {100 * deviation:.2f} % of the median (estimated from "
        f"their mean difference; limit {100 * SPREAD:g} %)."
    )
    return Verdict("spread", QUALITY, PASS if deviation <= SPREAD else FAIL, detail)


def stopping_rule(repeats: tuple[Repeat, ...], protocol: Protocol) -> Verdict:
    """An adaptive run ended because the median is known well enough, not because it ran out of repeats."""
    name, kind = "stopping-rule", QUALITY
    if protocol.target is None:
        detail = f"The protocol {protocol.name} takes a fixed number of repeats."
        return Verdict(name, kind, NOT_APPLICABLE, detail)
    rates = [metrics.throughput(repeat) for repeat in repeats]
    width = estimate.half_width(rates)
    if width is None:
        detail = f"{len(rates)} repeats give the median no interval; it takes six."
        return Verdict(name, kind, INCONCLUSIVE, detail)
    met = width <= protocol.target
    detail = (
        f"After {len(rates)} of at most {protocol.max_repeats} repeats the median is known within "
        f"±{100 * width:.2f} %; ±{100 * protocol.target:g} % were asked for."
    )
    return Verdict(name, kind, PASS if met else INCONCLUSIVE, detail)
