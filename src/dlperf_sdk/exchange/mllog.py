"""Results as MLPerf's log lines: `:::MLLOG {"namespace": …, "time_ms": …, "event_type": …, "key": …, …}`.

Source of the format: mlcommons/logging, mlperf_logging/mllog/mllog.py (`_encode_log`: the six fields and their
order) and mllog/constants.py (the keys). Keys that MLPerf does not have begin with `dlperf_`. This is no MLPerf
submission: a result is a throughput, not a time to a target.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from attrs import field, frozen

from dlperf_sdk.errors import UsageError
from dlperf_sdk.results.convert import to_plain
from dlperf_sdk.results.result import Result

_START, _END, _POINT = "INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"
_BENCHMARKS = {"resnet50": "resnet", "bert-base": "bert"}
"""Model → its name in MLPerf, whose BERT is the large one. `dlperf_model` has the model's own name."""
_OPTIMIZER = (
    ("kind", "opt_name"),
    ("learning_rate", "opt_base_learning_rate"),
    ("weight_decay", "opt_weight_decay"),
    ("clip_norm", "opt_gradient_clip_norm"),
)


def to_mllog(results: Sequence[Result]) -> str:
    """Return results as MLPerf's log lines: one `:::MLLOG {…}` per event, with the result's id as `namespace`.

    `time_ms` is in milliseconds since 1970, UTC. It is the start of the run in events about the request, and the end
    of the run in events about measurements. `metadata.lineno` is the number of the line in the returned text, from 1.
    Numbers that are not finite are the texts `nan`, `inf` and `-inf`. If a result is in a store, its records are
    read from the store.

    Raises:
        UsageError: The start or end of a result is not a date.
        DocumentError: A result's records cannot be read.
    """
    lines: list[str] = []
    for result in results:
        start, end = (_milliseconds(result, stamp) for stamp in (result.started_at, result.finished_at))
        for event in _events(result):
            entry = {
                "namespace": result.id,
                "time_ms": end if event.at_end else start,
                "event_type": event.type,
                "key": event.key,
                "value": to_plain(event.value),
                "metadata": {"file": "dlperf-sdk", "lineno": len(lines) + 1, **to_plain(event.metadata)},
            }
            lines.append(f":::MLLOG {json.dumps(entry, allow_nan=False)}\n")
    return "".join(lines)


@frozen
class _Event:
    key: str
    value: Any = None
    metadata: dict[str, Any] = field(factory=dict)
    type: str = _POINT
    at_end: bool = False


def _events(result: Result) -> Iterator[_Event]:
    for key, value in _list_request(result):
        if value is not None:
            yield _Event(key, value)
    yield _Event("run_start", type=_START)
    if result.imported is None:
        # The number of samples in the window of an imported run is not known.
        samples = sum(record.samples for repeat in result.repeats for record in repeat.records)
        yield _Event("trained_samples", samples, {"repeats": len(result.repeats)}, at_end=True)
    for metric in result.metrics:
        metadata = {"unit": metric.unit, "low": metric.low, "high": metric.high, "note": metric.note}
        yield _Event(f"dlperf_{metric.name}", metric.value, metadata, at_end=True)
    for verdict in result.verdicts:
        metadata = {"kind": verdict.kind, "detail": verdict.detail}
        yield _Event(f"dlperf_verdict_{verdict.name}", verdict.outcome, metadata, at_end=True)
    metadata = {"status": "success" if result.ok else "aborted", "dlperf_status": result.status}
    yield _Event("run_stop", None, metadata, _END, at_end=True)


def _list_request(result: Result) -> Iterator[tuple[str, Any]]:
    spec = result.spec
    facts = {fact.name: fact.requested if fact.observed is None else fact.observed for fact in result.facts}
    optimizer = {} if result.workload is None else result.workload.optimizer
    yield "submission_benchmark", _BENCHMARKS.get(spec.model, spec.model)
    yield "submission_division", "open"
    yield "submission_platform", str(spec.topology)
    yield "global_batch_size", None if spec.wants_max_batch else spec.global_batch_size
    yield "gradient_accumulation_steps", facts.get("accumulation")
    yield "seed", facts.get("seed")
    yield "num_warmup_steps", facts.get("warmup")
    yield "max_steps", facts.get("steps")
    yield "max_sequence_length", facts.get("sequence_length")
    for own_name, key in _OPTIMIZER:
        yield key, optimizer.get(own_name)
    yield "dlperf_framework", spec.framework
    yield "dlperf_model", spec.model
    yield "dlperf_precision", facts.get("precision")
    yield "dlperf_imported", None if result.imported is None else result.imported.importer


def _milliseconds(result: Result, stamp: str) -> int:
    try:
        return round(datetime.fromisoformat(stamp).timestamp() * 1000)
    except ValueError as error:
        raise UsageError(f"{result.id} says that it ran at {stamp}, which is not a date: {error}.") from error
