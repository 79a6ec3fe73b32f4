"""Estimate a campaign's remaining time: roughly at first, and better with every repeat that comes in."""

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
"""Seconds that the start and the end of a repeat are guessed at while nothing is known."""
STEP = 0.5
"""Seconds that a step is guessed at while nothing is known."""
PROBES = 8
"""Assumed number of probes of a search for the largest batch size; see `dlperf_sdk.max_batch.search`."""
_PROBE: dict[str, Any] = {**SHORT, "target": None, "max_repeats": None}


def default_seconds(spec: RunSpec) -> float:
    """Return the estimated seconds of one repeat if nothing similar has been measured: an order of magnitude."""
    protocol = spec.resolved_protocol()
    return START + STEP * (protocol.canonical_steps + protocol.warmup + protocol.steps)


def remaining_seconds(cases: Iterable[CaseProgress], settings: Settings) -> float:
    """Return the estimated seconds until the campaign is complete.

    A case takes as long as its own repeats did; before its first, as long as the repeats of cases with its framework,
    model and topology; else of its framework and model; else of any; else as `default_seconds` says. The probes for a
    largest batch size that is not known yet, and a trace, take as much less as they have fewer steps. Preparing
    environments and parity runs, which are mostly found in a cache, are not counted.

    `cases` are the progress of all cases, and `settings` those of the campaign.
    """
    all_cases = list(cases)
    known = _median_times(all_cases)
    return sum(
        remaining_repeats(progress) * (seconds_per_repeat(progress, known) + settings.cooldown)
        + seconds_per_repeat(progress, known) * extra_repeats(progress, settings)
        for progress in all_cases
        if progress.status is None
    )


def extra_repeats(progress: CaseProgress, settings: Settings) -> float:
    """Return the estimated time of a case's batch-size probes and trace, in units of one repeat."""
    spec = progress.case.spec
    probes = PROBES if spec.wants_max_batch and progress.batch_size is None else 0
    probe, traced = attrs.evolve(spec, **_PROBE), attrs.evolve(spec, steps=tracing.STEPS)
    seconds = probes * default_seconds(probe) + (default_seconds(traced) if settings.trace else 0.0)
    return seconds / default_seconds(spec)


def total_seconds(cases: Iterable[CampaignCase], known: Iterable[CaseProgress], settings: Settings) -> float:
    """Return the estimated seconds of a campaign of these cases from its start.

    A case takes as long as the repeats of its equal among the `known` ones, wherever those were measured; else as
    `remaining_seconds` says.
    """
    before = list(known)
    times = {digest(progress.case.spec): progress.times for progress in before if progress.times}
    planned = [CaseProgress(case, times=list(times.get(digest(case.spec), ()))) for case in cases]
    assumed = [attrs.evolve(progress, status="ok") for progress in before]
    return remaining_seconds([*planned, *assumed], settings)


def remaining_repeats(progress: CaseProgress) -> int:
    """Return the number of repeats that a case still needs according to its protocol."""
    return max(1, progress.case.spec.resolved_protocol().repeats - progress.finished)


def seconds_per_repeat(progress: CaseProgress, known: Mapping[tuple[str, ...], float]) -> float:
    """Return the estimated seconds of one repeat of a case.

    `known` has the median seconds of repeats by what cases have in common, for a case without repeats of its own.
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
