"""The summary of a profiler's trace: top operators by self time, communication, and idle time of the device."""

from __future__ import annotations

import math
from typing import Annotated

from attrs import frozen

from dlperf_sdk.documents.field_types import Count, Index, PositiveCount, Schema, Seconds
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.interfaces.trace import TraceEvents
from dlperf_sdk.results.intervals import length, overlap, self_times, union
from dlperf_sdk.results.trace_events import Trace

MOST_OPERATORS = 20
"""Maximum number of operators in a summary."""


@frozen
class OperatorTime:
    """The time of all events of a trace that have one name."""

    name: str
    """Name of the operator or kernel, as the profiler writes it; varying parts such as a running number are cut off."""
    count: Count
    """Number of events."""
    seconds: Seconds
    """Self time: the events' time without that of events inside them on the same thread or stream."""


@frozen(kw_only=True)
class TraceSummary:
    """Summary of the profiler's trace of one trainer, in seconds over all traced steps.

    The trace is of an extra attempt, which is part of no metric: profiling takes time, so a step may take longer than
    in the measured window.
    """

    rank: Index
    """Rank of the trainer."""
    steps: PositiveCount
    """Number of traced steps."""
    window: Seconds
    """Time from the start of the first event to the end of the last, of those that the other fields count."""
    busy: Seconds
    """Time in which at least one event of work or communication takes place: the length of their union. Work is the
    kernels and copies of an accelerator, or the operators on a CPU."""
    idle: Seconds
    """Time of the window in which none does."""
    communication: Seconds | None
    """Length of the union of the gradient synchronization's events; null if the profiler shows none that can be told
    from others."""
    exposed_communication: Seconds | None
    """Part of the communication that no work overlaps; null without `communication`."""
    work: Seconds
    """Sum of the self times of all events of work, over all threads or streams; it may exceed the window."""
    operators: Annotated[tuple[OperatorTime, ...], Schema(maxItems=MOST_OPERATORS)]
    """The names with the largest self times, the largest first."""


def summarize_trace(
    packed: bytes, declared: TraceEvents, *, device: str, rank: int, steps: int
) -> TraceSummary | None:
    """Return the summary of a trace; None if the plugin does not declare which events are work of the device.

    Args:
        packed: The trace, in Chrome's format and compressed with gzip.
        declared: The plugin's declaration of which events are operators, work of the device, and communication.
        device: The kind of device, such as `cuda`; on `cpu`, the operators are the work.
        rank: Rank of the trainer.
        steps: Number of traced steps.

    Raises:
        DocumentError: The trace is not in Chrome's format, has more than `LARGEST_TRACE` (144 MiB) when unpacked, or
            has no event of work; or an event of work or communication has no valid time or duration, or ends before it
            starts.
    """
    selections = declared.operators if device == "cpu" else declared.device
    if not selections:
        return None
    source = f"The trace of rank {rank}"
    trace = Trace(packed, source)
    communication = trace.select(declared.communication)
    events = trace.select(selections, declared.communication)
    if not events:
        raise DocumentError(f"{source} has no event that stands for work of the device.")
    work, exchange, activity = union(events), union(communication), union([*events, *communication])
    window, busy = activity[-1][1] - activity[0][0], length(activity)
    times = self_times(events)
    ordered = sorted(times.items(), key=lambda item: (-item[1][1], item[0]))
    return TraceSummary(
        rank=rank,
        steps=steps,
        window=window,
        busy=busy,
        idle=max(0.0, window - busy),
        communication=length(exchange) if communication else None,
        exposed_communication=max(0.0, length(exchange) - overlap(exchange, work)) if communication else None,
        work=math.fsum(seconds for _, seconds in times.values()),
        operators=tuple(OperatorTime(name, *time) for name, time in ordered[:MOST_OPERATORS]),
    )
