"""Recompute the metrics and verdicts of a stored result from its records, and compare them with the stored ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

import dlperf_sdk
from dlperf_sdk.interfaces.measurer import Measurer, Metric
from dlperf_sdk.results import metrics
from dlperf_sdk.results.records import Repeat
from dlperf_sdk.results.result import FAIL, Result, Verdict
from dlperf_sdk.results.verdicts import Expected
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.strategy import STRATEGIES


def compare_medians(stored: Iterable[Metric]) -> Iterator[str]:
    """Compute median and interval of stored metrics again, and yield a sentence for each number that differs.

    They are computed from the metric's own values per repeat; a metric without these is not checked. The sentences are
    in the order of the metrics.
    """
    for metric in stored:
        if metric.repeats:
            recomputed = metrics.metric(metric.name, metric.unit, metric.repeats)
            yield from _differing_values(metric, recomputed, "its repeats give")


def compare_throughput(result: Result, repeats: Sequence[Repeat]) -> Iterator[str]:
    """Compute the throughput, in total and per device, from the records; yield a sentence for each difference.

    A difference is a median, an end of the interval or a value of a repeat that is not the one that the result states.
    Nothing is yielded if there is none.

    Args:
        result: The result. If it has no `throughput` or no `throughput-per-device`, that one is not checked.
        repeats: The result's repeats, at least one, each with records and windows of positive length.
    """
    rates = [metrics.throughput(repeat) for repeat in repeats]
    for name, devices in (("throughput", 1), ("throughput-per-device", result.spec.topology.devices)):
        metric = result.metric(name)
        if metric is not None:
            recomputed = metrics.metric(name, metric.unit, [rate / devices for rate in rates])
            yield from _differing(metric, recomputed)


def compare_metrics(
    result: Result, repeats: tuple[Repeat, ...], measurers: Iterable[Measurer]
) -> Iterator[str]:
    """Yield a sentence for each difference between a result's metrics and those that measurers compute from records.

    Metrics that only one side has are not compared. A measurer that raises an exception leads to a sentence, too.

    Args:
        result: The result. Without a workload, nothing is compared.
        repeats: The result's repeats with their records.
        measurers: The measurers whose metrics are computed.
    """
    if result.workload is None:
        return
    device = next((fact.observed for fact in result.facts if fact.name == "device"), None)
    measured = metrics.measured_of(result.spec, result.workload, str(device), repeats)
    older = (
        "" if result.sdk_version == dlperf_sdk.__version__ else f" (it is of dlperf-sdk {result.sdk_version})"
    )
    stored = {metric.name: metric for metric in result.metrics}
    for measurer in measurers:
        try:
            recomputed = {metric.name: metric for metric in measurer.summarize(measured)}
        except Exception as error:
            yield f"The measurer {measurer.name} fails on the records: {type(error).__name__}: {error}."
            continue
        for name, metric in recomputed.items():
            if name in stored:
                yield from (f"{difference[:-1]}{older}." for difference in _differing(stored[name], metric))


def _differing(stored: Metric, recomputed: Metric) -> Iterator[str]:
    if stored.unit != recomputed.unit:
        yield f"{stored.name} is in {stored.unit}, but the records give {recomputed.unit}."
    yield from _differing_values(stored, recomputed, "the records give")
    if len(stored.repeats) != len(recomputed.repeats) or not all(
        map(_are_equal, stored.repeats, recomputed.repeats)
    ):
        yield f"The repeats of {stored.name} are not those of the records."


def _differing_values(stored: Metric, recomputed: Metric, source: str) -> Iterator[str]:
    for part, label in (("value", ""), ("low", ", lower end"), ("high", ", upper end")):
        value, expected = getattr(stored, part), getattr(recomputed, part)
        if not _are_equal(value, expected):
            yield f"{stored.name}{label} is {value}, but {source} {expected}."


def _are_equal(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    # Another version of Python may sum in another order.
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9)


def recompute_expected(result: Result, repeats: Sequence[Repeat], ranks: int | None) -> Expected:
    """Return the values that the records of a result are checked against.

    Args:
        result: The result.
        repeats: Its repeats with their records.
        ranks: Number of trainer processes, which only the plan has; None if it is unknown. In that case, the number of
            ranks in the first repeat is used, or 0 without repeats.
    """
    spec = result.spec.executed
    rank_count = len({record.rank for record in repeats[0].records}) if repeats else 0
    return Expected(
        request=result.id,
        ranks=rank_count if ranks is None else ranks,
        replicas=spec.topology.devices,
        batch_size=spec.batch_size,
        precision=spec.precision,
        strategy=spec.strategy,
        protocol=spec.resolved_protocol(),
        learning_rate_policy=spec.learning_rate_policy,
        compiler=spec.compiler,
        layout=spec.layout,
        has_dropout=any(fact.name == "dropout" and bool(fact.observed) for fact in result.facts),
        part=spec.part,
        parameters=0 if result.workload is None else result.workload.parameters,
    )


def explain_unknown_names(spec: RunSpec) -> list[str]:
    """Return a sentence for each unknown name among the case's precision and strategy; empty if both are known.

    A name is unknown if this version of dlperf-sdk does not have it. Records of a case with an unknown precision or
    strategy cannot be checked.
    """
    return [
        f"There is no {known.kind} named {name!r} in this version: the records cannot be checked."
        for known, name in ((PRECISIONS, spec.precision), (STRATEGIES, spec.strategy))
        if name not in known
    ]


def compare_verdicts(result: Result, recomputed: Iterable[Verdict]) -> Iterator[str]:
    """Yield a sentence for each recomputed verdict that contradicts the result.

    A verdict contradicts the result if the result states another outcome for the check of that name, or if the verdict
    is `fail` and the result has no verdict of that name.
    """
    for verdict in recomputed:
        stored = result.verdict(verdict.name)
        if stored is None and verdict.outcome == FAIL:
            yield f"The verdict {verdict.name} is missing; by the records it fails: {verdict.detail}"
        elif stored is not None and stored.outcome != verdict.outcome:
            yield f"{verdict.name} is {stored.outcome}, but by the records {verdict.outcome}: {verdict.detail}"
