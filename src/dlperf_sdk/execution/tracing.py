"""Take a profiler's trace of a case: an extra attempt in separate processes, which is part of no metric."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any

from dlperf_sdk import environments
from dlperf_sdk.errors import FAILURES, DlperfError, DocumentError, InvalidRecord, RunFailed
from dlperf_sdk.execution.launch import launch
from dlperf_sdk.execution.prepare import PreparedCase
from dlperf_sdk.execution.resource_failures import resource_failure
from dlperf_sdk.interfaces.framework import Framework
from dlperf_sdk.registry.capabilities import explain_missing_trace
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.agent_events import failure_from
from dlperf_sdk.results.run_directory import RunDirectory
from dlperf_sdk.results.trace_summary import TraceSummary, summarize_trace
from dlperf_sdk.worker.request import Request

STEPS = 5
"""Steps that are traced: enough to see the pattern, and few enough to look at."""


def take_trace(
    run_id: str, prepared: PreparedCase, registry: Registry, directory: RunDirectory
) -> tuple[tuple[TraceSummary, ...], tuple[str, ...]]:
    """Trace a prepared case in an extra attempt, and write and summarize one trace per trainer.

    A failure of the attempt, of a plugin, of the store, or for lack of a resource is not raised.

    Args:
        run_id: The run's name.
        prepared: The prepared case.
        registry: The plugins.
        directory: The run's directory, into which the traces are written.

    Returns:
        A pair: the summaries in the order of the ranks; and texts for the result's notes. The first text has the names
        of the files with the traces, or the reason why there are none. The others have the reasons why traces have no
        summary.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    try:
        framework = registry.framework(prepared.plan.spec.framework)
        refusal = explain_missing_trace(framework)
        if refusal is not None:
            return (), (f"There is no trace (unsupported): {refusal}",)
        with environments.use_environment(prepared.environment):
            traces = read_traces(
                launch(prepared.plan, _make_trace_request(prepared.request(run_id)), registry)
            )
        paths = [directory.write_trace(rank, packed) for rank, packed in sorted(traces.items())]
    except DlperfError as error:  # the attempt, the store, or a plugin that has been replaced or removed
        kind = f" ({error.kind})" if isinstance(error, RunFailed) else ""
        return (), (f"There is no trace{kind}: {error}",)
    except Exception as error:
        failure = resource_failure(error)
        if failure is None:
            raise
        return (), (f"There is no trace ({failure.kind}): {failure.message}",)
    names = ", ".join(str(path.relative_to(directory.path)) for path in paths)
    summaries, problems = _summarize_traces(traces, framework, prepared.plan.device)
    return summaries, (f"Traced apart from what was measured: {names}", *problems)


def _summarize_traces(
    traces: Mapping[int, bytes], framework: Framework, device: str
) -> tuple[tuple[TraceSummary, ...], tuple[str, ...]]:
    """Return the summaries of traces by rank, and a sentence for each kind of trace that has none."""
    summaries: list[TraceSummary] = []
    problems: list[str] = []
    declared = framework.capabilities.trace
    if declared is None:
        return (), ()
    for rank, packed in sorted(traces.items()):
        try:
            summary = summarize_trace(packed, declared, device=device, rank=rank, steps=STEPS)
        except DocumentError as error:
            problems.append(f"There is no summary of a trace: {error}")
            continue
        if summary is None:
            problem = (
                f"{framework.name}'s plugin does not declare which events are work of a device {device}."
            )
            return (), (f"There is no summary of the traces: {problem}",)
        summaries.append(summary)
    return tuple(summaries), tuple(problems)


def _make_trace_request(request: Request) -> Request:
    """Return the request of the extra attempt: warmed up as the case is, and nothing sampled."""
    protocol = {**request.protocol, "steps": STEPS, "repeats": 1, "max_repeats": 1, "target": None}
    return request._replace(program="trace", protocol=protocol, samplers=[])


def read_traces(events: Generator[Mapping[str, Any], None, None]) -> dict[int, bytes]:
    """Return a dict from rank to trace, in Chrome's format and compressed with gzip, from the events of an attempt.

    The events are read to their end or to the first failure, and closed.

    Raises:
        RunFailed: The attempt failed; the exception has the type of the failure's kind, such as Unsupported for a
            framework without profiler.
        InvalidRecord: An event is malformed, or there is no trace.
    """
    traces: dict[int, bytes] = {}
    with closing(events) as stream:
        for event in stream:
            try:
                if event["event"] == "attempt-ended" and event["failure"] is None:
                    for record in event["records"]:
                        traces[int(record["rank"])] = base64.b64decode(record["trace"], validate=True)
                failure = failure_from(event["failure"]) if event.get("failure") is not None else None
            except (KeyError, TypeError, ValueError, AttributeError, binascii.Error) as error:
                raise InvalidRecord(f"A worker's trace breaks the protocol: {error!r}") from error
            if failure is not None:
                raise FAILURES[failure.kind](failure.message)
    if not traces:
        raise InvalidRecord("The attempt succeeded, but returned no trace.")
    return traces
