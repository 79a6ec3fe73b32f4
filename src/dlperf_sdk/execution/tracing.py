"""Take a profiler's trace of a case: an extra attempt in separate processes, which is part of no metric."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any

from dlperf_sdk import environments
from dlperf_sdk.errors import FAILURES, InvalidRecord, RunFailed, StoreError
from dlperf_sdk.execution.launch import launch
from dlperf_sdk.execution.prepare import PreparedCase
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.agent_events import failure_from
from dlperf_sdk.results.run_directory import RunDirectory
from dlperf_sdk.worker.request import Request

STEPS = 5
"""Steps that are traced: enough to see the pattern, and few enough to look at."""


def take_trace(run_id: str, prepared: PreparedCase, registry: Registry, directory: RunDirectory) -> str:
    """Trace a prepared case in an extra attempt, and write one trace per trainer into the run's directory.

    Args:
        run_id: The run's name.
        prepared: The prepared case.
        registry: The plugins.
        directory: The run's directory.

    Returns:
        A sentence for the result's notes: the names of the traces, or the reason why there are none.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
        PluginError: The plugin's files cannot be packed.
    """
    try:
        with environments.use_environment(prepared.environment):
            traces = read_traces(
                launch(prepared.plan, _make_trace_request(prepared.request(run_id)), registry)
            )
        paths = [directory.write_trace(rank, packed) for rank, packed in sorted(traces.items())]
    except RunFailed as error:
        return f"There is no trace ({error.kind}): {error}"
    except StoreError as error:
        return f"There is no trace: {error}"
    names = ", ".join(str(path.relative_to(directory.path)) for path in paths)
    return f"Traced apart from what was measured: {names}"


def _make_trace_request(request: Request) -> Request:
    """Return the request of the extra attempt: warmed up as the case is, and nothing sampled."""
    protocol = {**request.protocol, "steps": STEPS, "repeats": 1, "max_repeats": 1, "target": None}
    return request._replace(program="trace", protocol=protocol, samplers=[])


def read_traces(events: Generator[Mapping[str, Any], None, None]) -> dict[int, bytes]:
    """Return rank → trace, in Chrome's format and compressed with gzip, from the events of an attempt.

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
