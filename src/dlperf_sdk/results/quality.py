"""Quality verdicts: measurement quality, shown without an effect on the exit code."""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs

from dlperf_sdk.results import metrics
from dlperf_sdk.results.records import Repeat
from dlperf_sdk.results.result import FAIL, INCONCLUSIVE, NOT_APPLICABLE, PASS, QUALITY, Verdict
from dlperf_sdk.results.steady_state import FEWEST_STEPS, LIMIT, SteadyState, assess
from dlperf_sdk.spec.protocol import Protocol
from dlperf_sdk.worker import estimate
from dlperf_sdk.worker.agent.stopping import decide

SPREAD = 0.02
"""Maximum standard deviation between repeats for a pass, as a fraction of the median."""
PREFETCHED = 0.1
"""Maximum number of batches that the input pipeline may hold ready, as a fraction of the window's steps."""
SKIPPED = 0.05
"""Maximum fraction of the window's steps that the loss scaler may skip. A skipped step does not update, and is
faster."""


def steady_state(repeats: tuple[Repeat, ...], warmup: int) -> Verdict:
    """Check that the mean step time of the window is within 1 % of the stationary mean, that of an endless window.

    The verdict `steady-state` is `pass` or `fail` if the step times are clear enough to decide, and `inconclusive`
    otherwise. It is also `inconclusive` if the window has fewer than 20 steps (`FEWEST_STEPS`); if a step time is not
    positive; if the input pipeline can hold more batches ready than 10 % of the window's steps (`PREFETCHED`); or if
    the loss scaler skipped more than 5 % of the steps (`SKIPPED`). `docs/reference/operating-characteristics.md` states
    the rates of wrong verdicts.

    Args:
        repeats: The finished repeats. Without any, the verdict is inconclusive.
        warmup: Number of warm-up steps that were taken, for the advice in the verdict's text.
    """
    times = [metrics.step_times(repeat) for repeat in repeats]
    if reasons := list(_disturbances(repeats, times)):
        return Verdict("steady-state", QUALITY, INCONCLUSIVE, " ".join(reasons))
    state = assess(times)
    deciding = state.deciding
    part = (
        "the end of a line through its steps"
        if deciding.first_step is None
        else f"the mean of its last {min(map(len, times)) - deciding.first_step} steps"
    )
    measured = (
        f"The window's mean step time deviates from {part} by {100 * deciding.value:+.2f} % ± "
        f"{100 * deciding.bound:.2f} % (limit {100 * LIMIT:g} %)."
    )
    if state.is_unsteady:
        return Verdict("steady-state", QUALITY, FAIL, f"{measured} {_advice(state, warmup)}")
    if state.is_steady:
        return Verdict("steady-state", QUALITY, PASS, measured)
    return Verdict("steady-state", QUALITY, INCONCLUSIVE, f"{measured} {_advice(state, warmup)}")


def _advice(state: SteadyState, warmup: int) -> str:
    if state.warmup is None:
        return "No part of the window is steady: use a longer warm-up and more steps."
    if state.warmup == 0:
        return "Measure more steps or repeats."
    return f"A warm-up of {warmup + state.warmup} steps should suffice (it was {warmup})."


def _disturbances(repeats: tuple[Repeat, ...], times: list[list[float]]) -> Iterator[str]:
    """Yield a sentence for each reason why a window cannot be assessed."""
    steps = min(map(len, times), default=0)
    if steps < FEWEST_STEPS:
        yield f"The window has {steps} steps; the test takes {FEWEST_STEPS}."
        return
    if min(map(min, times)) <= 0:
        yield "A step has no length."
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


def spread(repeats: tuple[Repeat, ...]) -> Verdict:
    """Check that the standard deviation of the throughput between repeats is at most 2 % (`SPREAD`) of the median.

    The verdict `spread` is `fail` if the standard deviation is larger, and `inconclusive` with fewer than two repeats.
    The standard deviation is estimated from the mean difference between repeats, which, unlike the range, does not grow
    with the number of repeats. `docs/reference/operating-characteristics.md` states the rates of wrong verdicts.

    Args:
        repeats: The finished repeats, with windows of positive length.

    Raises:
        ZeroDivisionError: A window has no length, or the median throughput is 0.
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
    """Check that an adaptive run took as many repeats as its stopping rule requires.

    The stopping rule derives the required number of repeats from the first repeats. The verdict `stopping-rule` is
    `pass` if that number was taken, `inconclusive` if fewer were taken, and `not-applicable` if the protocol has a
    fixed number of repeats.

    Args:
        repeats: The finished repeats, in the order of their attempts, with windows of positive length.
        protocol: The protocol of the case.

    Raises:
        ZeroDivisionError: The protocol is adaptive, and a window has no length, or the median throughput is 0.
    """
    name, kind = "stopping-rule", QUALITY
    if protocol.target is None:
        detail = f"The protocol {protocol.name} takes a fixed number of repeats."
        return Verdict(name, kind, NOT_APPLICABLE, detail)
    decision = decide([metrics.throughput(repeat) for repeat in repeats], attrs.asdict(protocol))
    return Verdict(name, kind, PASS if decision.met else INCONCLUSIVE, f"{decision.detail}.")
