"""Check a result against its own records: a file that was edited by hand contradicts itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dlperf_sdk
from dlperf_sdk.documents.json_values import shown
from dlperf_sdk.documents.reading import LARGEST_RESULT, load_document
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.interfaces.measurer import Measured, Measurer, Metric
from dlperf_sdk.results import metrics
from dlperf_sdk.results.convert import to_plain
from dlperf_sdk.results.records import Repeat
from dlperf_sdk.results.result import FAIL, INTEGRITY, PASS, Result, Verdict
from dlperf_sdk.results.store import ResultStore
from dlperf_sdk.results.stored_repeats import StoredRepeats, attempts_of
from dlperf_sdk.results.verdicts import Expected, integrity_of, judge
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.strategy import STRATEGIES
from dlperf_sdk.worker.processes import TRAINER


def contradictions(result: Result) -> tuple[str, ...]:
    """Return a sentence for each throughput, integrity verdict or median that the result's own repeats contradict.

    Empty if all agree. A result without repeats is checked by `own_contradictions` only. For a result from the store
    the records are read; `check_directory` checks all files.
    """
    found = [*own_contradictions(result)]
    if result.imported is not None:
        return tuple(found)
    try:
        repeats = tuple(result.repeats)
    except DocumentError as error:
        return (*found, str(error))
    if empty := [repeat.attempt for repeat in repeats if not repeat.records]:
        found.append(f"Attempt {empty[0]} is among the repeats, but has no records.")
    elif unknown := _unknown_names(result.spec):
        found += unknown
    elif repeats and result.workload is not None:
        found += _throughput(result, repeats)
        found += _verdicts(result, integrity_of(repeats, _expected(result, repeats, None)))
    return tuple(found)


WITH_RECORDS = 60
"""Results of which a report reads the records. More are held against theirs one by one, by `dlperf validate`."""


def contradictions_among(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """The `contradictions` of each result; of more than `WITH_RECORDS` the `own_contradictions`."""
    return list(map(contradictions if len(results) <= WITH_RECORDS else own_contradictions, results))


def own_contradictions(result: Result) -> tuple[str, ...]:
    """Those of the `contradictions` that show without the records: in the metrics, and in what was imported."""
    found = [*_medians(result.metrics)]
    if result.imported is not None:
        found += _imported(result)
    return tuple(found)


def check_directory(path: Path, measurers: Iterable[Measurer]) -> tuple[str, ...]:
    """Return a sentence for each contradiction between the result in a run's directory and its other files.

    The records of the attempts are compared with the result's repeats, and `spec.json`, `environment.json` and
    `plan.json` with the result's copies. All metrics and verdicts are computed again from the records.

    Raises:
        StoreError: there is no result.
        DocumentError: the result is corrupt, or of a newer version.
    """
    store = ResultStore(path.absolute().parent)
    result = store.load(path.absolute())
    if result.imported is not None:
        return contradictions(result)
    left = store.recover(path.absolute().name)
    found = [
        f"{each.path.relative_to(store.directory / path.name)} cannot be read: {each.error}"
        for each in left.unreadable
    ]
    if left.spec is not None and left.spec != result.spec:
        found.append(f"spec.json is another than the result's: {_first_difference(left.spec, result.spec)}.")
    repeats = tuple(attempt.repeat for attempt in left.attempts if attempt.status == "ok" and attempt.records)
    found += _numbers([repeat.attempt for repeat in repeats], attempts_of(result.repeats))
    if not isinstance(result.repeats, StoredRepeats):
        found += _records(result.repeats, repeats)
    plan = _document(path, "plan.json", found)
    environment = _document(path, "environment.json", found)
    if (
        environment is not None
        and result.environment is not None
        and environment != to_plain(result.environment)
    ):
        where = _first_difference(environment, to_plain(result.environment))
        found.append(f"environment.json is another than the result's: {where}.")
    ranks = None
    if plan is not None:
        if result.workload is not None and to_plain(result.workload) != plan.get("workload"):
            where = _first_difference(plan.get("workload"), to_plain(result.workload))
            found.append(f"The workload is another than plan.json's: {where}.")
        ranks = _ranks(plan, found)
    found += _medians(result.metrics)
    if unknown := _unknown_names(result.spec):
        found += unknown
    elif repeats and result.workload is not None:
        found += _metrics(result, repeats, measurers)
        found += _verdicts(result, judge(repeats, _expected(result, repeats, ranks), result.parity))
    elif result.metrics:
        found.append("There are metrics, but no finished attempt that they could come from.")
    return tuple(dict.fromkeys(found))


def _document(path: Path, name: str, found: list[str]) -> dict[str, Any] | None:
    """A file of the directory; None where there is none, and a sentence where it cannot be read."""
    if not (path / name).exists():
        return None
    try:
        return load_document(path / name, LARGEST_RESULT)
    except DocumentError as error:
        found.append(str(error))
        return None


def _ranks(plan: Mapping[str, Any], found: list[str]) -> int | None:
    """Return the number of trainers in a plan; if it is malformed, append a sentence to `found` and return None."""
    processes = plan.get("processes")
    if isinstance(processes, list) and all(isinstance(each, Mapping) for each in processes):
        return [each.get("role") for each in processes].count(TRAINER)
    found.append(f"plan.json does not say which processes there are, but: {shown(processes)}.")
    return None


# -- records


def _numbers(finished: Sequence[int], stored: Sequence[int]) -> Iterator[str]:
    for number in stored:
        if number not in finished:
            yield f"Attempt {number} is in the result, but not among the finished attempts."
    for number in sorted({*finished} - {*stored}):
        yield f"Attempt {number} finished, but is not in the result."
    for number in sorted({number for number in stored if stored.count(number) > 1}):
        yield f"Attempt {number} is in the result more than once."


def _records(stored: Sequence[Repeat], kept: Sequence[Repeat]) -> Iterator[str]:
    """Of a result that holds its records itself."""
    by_attempt = {repeat.attempt: repeat for repeat in kept}
    for repeat in stored:
        other = by_attempt.get(repeat.attempt)
        if other is not None and (where := _first_difference(to_plain(other), to_plain(repeat))):
            yield f"Attempt {repeat.attempt} is another than its records: {where}."


def _first_difference(one: Any, other: Any, where: str = "") -> str:
    """The place of the first difference and the two values: `records[0].samples: 80 is now 800`; empty where none."""
    if hasattr(one, "to_dict"):
        one, other = one.to_dict(), other.to_dict()
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in sorted({*one, *other}):
            if key not in one or key not in other:
                return f"{where}{'.' if where else ''}{key} is in only one of them"
            if said := _first_difference(one[key], other[key], f"{where}{'.' if where else ''}{key}"):
                return said
        return ""
    if isinstance(one, list) and isinstance(other, list):
        if len(one) != len(other):
            return f"{where} has {len(one)} entries, and now {len(other)}"
        differing = (
            _first_difference(a, b, f"{where}[{i}]") for i, (a, b) in enumerate(zip(one, other, strict=True))
        )
        return next((said for said in differing if said), "")
    same = type(one) is type(other) and one == other
    return "" if same else f"{where}: {str(one)[:60]} is now {str(other)[:60]}"


# -- metrics


def _medians(found: Iterable[Metric]) -> Iterator[str]:
    """A metric is the median of its own repeats, with their interval."""
    for metric in found:
        if metric.repeats:
            again = metrics.metric(metric.name, metric.unit, metric.repeats)
            for part in ("value", "low", "high"):
                if not _equal(getattr(metric, part), getattr(again, part)):
                    said = {"value": "", "low": ", lower end", "high": ", upper end"}[part]
                    yield (
                        f"{metric.name}{said} is {getattr(metric, part)}, but its repeats give {getattr(again, part)}."
                    )


def _throughput(result: Result, repeats: Sequence[Repeat]) -> Iterator[str]:
    rates = [metrics.throughput(repeat) for repeat in repeats]
    for name, devices in (("throughput", 1), ("throughput-per-device", result.spec.topology.devices)):
        metric = result.metric(name)
        if metric is not None:
            again = metrics.metric(name, metric.unit, [rate / devices for rate in rates])
            yield from _differing(metric, again)


def _metrics(result: Result, repeats: tuple[Repeat, ...], measurers: Iterable[Measurer]) -> Iterator[str]:
    if result.workload is None:
        return
    device = next((fact.observed for fact in result.facts if fact.name == "device"), None)
    measured = Measured(
        repeats=repeats,
        unit=result.workload.unit,
        batch_size=result.spec.batch_size,
        devices=result.spec.topology.devices,
        device=str(device),
        precision=result.spec.precision,
        flops_per_sample=result.workload.flops_per_sample,
    )
    older = (
        "" if result.sdk_version == dlperf_sdk.__version__ else f" (it is of dlperf-sdk {result.sdk_version})"
    )
    stored = {metric.name: metric for metric in result.metrics}
    for measurer in measurers:
        try:
            again = {metric.name: metric for metric in measurer.summarise(measured)}
        except Exception as error:
            yield f"The measurer {measurer.name} fails on the records: {type(error).__name__}: {error}."
            continue
        for name, metric in again.items():
            if name in stored:
                yield from (f"{said[:-1]}{older}." for said in _differing(stored[name], metric))


def _differing(stored: Metric, again: Metric) -> Iterator[str]:
    if stored.unit != again.unit:
        yield f"{stored.name} is in {stored.unit}, but the records give {again.unit}."
    for part in ("value", "low", "high"):
        if not _equal(getattr(stored, part), getattr(again, part)):
            said = {"value": "", "low": ", lower end", "high": ", upper end"}[part]
            yield f"{stored.name}{said} is {getattr(stored, part)}, but the records give {getattr(again, part)}."
    if len(stored.repeats) != len(again.repeats) or not all(map(_equal, stored.repeats, again.repeats)):
        yield f"The repeats of {stored.name} are not those of the records."


def _equal(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    # Sums may be made in another order by another version of Python.
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-9)


# -- verdicts


def _expected(result: Result, repeats: Sequence[Repeat], ranks: int | None) -> Expected:
    """Return the values that the records are checked against.

    Only the plan has the number of processes (`ranks`). Without it, the first repeat's number is used: another check
    covers whether the records hold all replicas.
    """
    spec = result.spec
    here = len({record.rank for record in repeats[0].records}) if repeats else 0
    return Expected(
        request=result.id,
        ranks=here if ranks is None else ranks,
        replicas=spec.topology.devices,
        batch_size=spec.batch_size,
        precision=spec.precision,
        strategy=spec.strategy,
        protocol=spec.resolved_protocol(),
        learning_rate_policy=spec.learning_rate_policy,
        compiler=spec.compiler,
        layout=spec.layout,
    )


def _unknown_names(spec: RunSpec) -> list[str]:
    """Return a sentence for the precision and the strategy if this version does not know them.

    Without them the records cannot be checked.
    """
    return [
        f"There is no {known.kind} named {name!r} in this version: the records cannot be checked."
        for known, name in ((PRECISIONS, spec.precision), (STRATEGIES, spec.strategy))
        if name not in known
    ]


def _verdicts(result: Result, again: Iterable[Verdict]) -> Iterator[str]:
    """A verdict that came out otherwise, and one that failed and is not there."""
    for verdict in again:
        stored = result.verdict(verdict.name)
        if stored is None and verdict.outcome == FAIL:
            yield f"The verdict {verdict.name} is missing; by the records it fails: {verdict.detail}"
        elif stored is not None and stored.outcome != verdict.outcome:
            yield f"{verdict.name} is {stored.outcome}, but by the records {verdict.outcome}: {verdict.detail}"


def _imported(result: Result) -> Iterator[str]:
    throughput = result.metric("throughput")
    logs = len(result.imported.sources) if result.imported else 0
    if throughput is None or len(throughput.repeats) != logs:
        count = 0 if throughput is None else len(throughput.repeats)
        yield f"It is imported from {logs} logs, but its throughput has {count} repeats."
    for verdict in result.verdicts:
        if verdict.kind == INTEGRITY and verdict.outcome in (PASS, FAIL):
            yield f"{verdict.name} is {verdict.outcome}, but an imported result has no records to judge by."
