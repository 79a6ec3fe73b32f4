"""A profiler's trace of a case: an extra attempt in processes of its own, never part of a figure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any

from dlperf_sdk.errors import FAILURES, InvalidRecord
from dlperf_sdk.results.agent_events import failure_from
from dlperf_sdk.worker.request import Request

STEPS = 5
"""Steps that are traced: enough to see the pattern, and few enough to look at."""


def traced(request: Request) -> Request:
    """The request of the extra attempt: warmed up as the case is, and nothing sampled."""
    protocol = {**request.protocol, "steps": STEPS, "repeats": 1, "max_repeats": 1, "target": None}
    return request._replace(program="trace", protocol=protocol, samplers=[])


def traces(events: Generator[Mapping[str, Any], None, None]) -> dict[int, bytes]:
    """Rank → its trace in Chrome's format, compressed with gzip, which Perfetto opens as it is.

    Raises:
        RunFailed: the attempt failed; Unsupported where the framework has no profiler to offer.
    """
    found: dict[int, bytes] = {}
    with closing(events) as stream:
        for event in stream:
            try:
                if event["event"] == "attempt-ended" and event["failure"] is None:
                    for record in event["records"]:
                        found[int(record["rank"])] = base64.b64decode(record["trace"], validate=True)
                failure = failure_from(event["failure"]) if event.get("failure") is not None else None
            except (KeyError, TypeError, ValueError, AttributeError, binascii.Error) as error:
                raise InvalidRecord(f"A worker's trace breaks the protocol: {error!r}") from error
            if failure is not None:
                raise FAILURES[failure.kind](failure.message)
    if not found:
        raise InvalidRecord("The attempt ended well, but no trace has come back.")
    return found
