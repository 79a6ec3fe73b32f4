"""Estimate of a campaign's remaining time, which becomes more accurate with every repeat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from dlperf_sdk.campaigns.campaign import CampaignCase, Settings, digest
from dlperf_sdk.campaigns.case_progress import CaseProgress
from dlperf_sdk.execution import tracing
from dlperf_sdk.max_batch.resolve import SHORT
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker.estimate import median

START = 20.0
"""Assumed seconds for the start and the end of a repeat, if nothing similar has been measured."""
STEP = 0.5
"""Assumed seconds of a step, if nothing similar has been measured."""
PROBES = 8
"""Assumed number of probes of a search for the maximum batch size; see `dlperf_sdk.max_batch.search`."""
_PROBE: dict[str, Any] = {**SHORT, "target": None, "max_repeats": None}


def default_seconds(spec: RunSpec) -> float:
    """Return the estimated seconds of one repeat of a case, from its numbers of steps alone.

    It is for a case without repeats in a campaign without repeats of similar cases.
    """
    protocol = spec.resolved_protocol()
    return START + STEP * (protocol.canonical_steps + protocol.warmup + protocol.steps)


def remaining_seconds(cases: Iterable[CaseProgress], settings: Settings) -> float:
    """Return the estimated seconds until the campaign is complete.

    A repeat is assumed to take the median of the case's own repeats. Without any, the median of cases with the
    same framework, model and topology is taken, else with the same framework and model, else of all cases, else
    `default_seconds`. Probes for a maximum batch size that is not known yet, and a trace, are scaled by their
    number of steps. The preparation of environments and parity runs, mostly cached, is not counted.

    Args:
        cases: The progress of all cases.
        settings: The settings of the campaign.
    """
    all_cases = list(cases)
    known = _median_times(all_cases)
    return sum(
        _remaining_repeats(progress) * (_seconds_per_repeat(progress, known) + settings.cooldown)
        + _seconds_per_repeat(progress, known) * _extra_repeats(progress, settings)
        for progress in all_cases
        if progress.status is None
    )


def _extra_repeats(progress: CaseProgress, settings: Settings) -> float:
    """Return the estimated time of a case's batch-size probes and trace, as a multiple of the time of one repeat."""
    spec = progress.case.spec
    probes = PROBES if spec.wants_max_batch and progress.batch_size is None else 0
    probe, traced = attrs.evolve(spec, **_PROBE), attrs.evolve(spec, steps=tracing.STEPS)
    seconds = probes * default_seconds(probe) + (default_seconds(traced) if settings.trace else 0.0)
    return seconds / default_seconds(spec)


def total_seconds(cases: Iterable[CampaignCase], known: Iterable[CaseProgress], settings: Settings) -> float:
    """Return the estimated duration in seconds of a campaign that has not started.

    Args:
        cases: The cases to measure.
        known: Measured cases, which may be of other campaigns. A repeat is assumed to take the median time of the
            repeats of a case with an equal spec, else of cases with equal framework and model, else of all cases.
        settings: The settings of the campaign.
    """
    before = list(known)
    times = {digest(progress.case.spec): progress.times for progress in before if progress.times}
    planned = [CaseProgress(case, times=list(times.get(digest(case.spec), ()))) for case in cases]
    assumed = [attrs.evolve(progress, status="ok") for progress in before]
    return remaining_seconds([*planned, *assumed], settings)


def _remaining_repeats(progress: CaseProgress) -> int:
    """Return the number of repeats that a case still needs by its protocol.

    For an adaptive protocol only the first repeats are counted, and then one until the largest number is reached.
    """
    protocol = progress.case.spec.resolved_protocol()
    least = 1 if progress.finished < protocol.max_repeats else 0
    return max(least, protocol.repeats - progress.finished)


def _seconds_per_repeat(progress: CaseProgress, known: Mapping[tuple[str, ...], float]) -> float:
    """Return the estimated seconds of one repeat of a case.

    Args:
        progress: Progress of the case; the median of its own repeats is used if it has any.
        known: (framework, model, topology), (framework, model) or () → median seconds of repeats of such cases, the
            fallback in this order.
    """
    if progress.times:
        return median(progress.times)
    return next(
        (known[key] for key in _keys(progress.case.spec) if key in known),
        default_seconds(progress.case.spec),
    )


def _median_times(cases: Sequence[CaseProgress]) -> dict[tuple[str, ...], float]:
    times: dict[tuple[str, ...], list[float]] = {}
    for case in cases:
        for key in _keys(case.case.spec) if case.times else ():
            times.setdefault(key, []).append(median(case.times))
    return {key: median(values) for key, values in times.items()}


def _keys(spec: RunSpec) -> tuple[tuple[str, ...], ...]:
    """Return the keys under which similar cases are found, the most similar first."""
    return (spec.framework, spec.model, str(spec.topology)), (spec.framework, spec.model), ()
