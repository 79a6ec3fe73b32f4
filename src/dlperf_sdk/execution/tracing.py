"""A profiler's trace of a case: an extra attempt in processes of its own, never part of a figure."""

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
    """Trace a case in an extra attempt, and write the traces into the run's directory.

    Returns:
        A note on the traces, or on why there are none.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
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
    """Return rank → its trace in Chrome's format, compressed with gzip, from the events of an attempt.

    Raises:
        RunFailed: the attempt failed; the subclass Unsupported if the framework has no profiler.
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
        raise InvalidRecord("The attempt ended well, but no trace has come back.")
    return traces
