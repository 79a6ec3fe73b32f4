"""What came back: the records of one case's workers, as values (schema `worker-record`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from dlperf_sdk.documents.json_values import numbers

RECORD_VERSION = "1.0"


@frozen
class Failure:
    """How a case failed."""

    kind: str
    """A kind of `dlperf_sdk.errors.FAILURES`."""
    message: str
    """What happened, where, and what to do, in one paragraph."""
    phase: str | None = None
    node: int | None = None
    rank: int | None = None
    type: str | None = None
    """The exception's class, where there was one."""
    traceback: str | None = None


@frozen
class Window:
    """The measured window on the node's monotonic clock, in seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.start


@frozen
class Replica:
    """What one replica did."""

    index: int
    device: str
    digest: str
    """Over its trainable parameters, after the last step."""
    canonical_losses: tuple[float, ...] = field(converter=numbers)
    warmup_losses: tuple[float, ...] = field(converter=numbers)
    losses: tuple[float, ...] = field(converter=numbers)
    """Inside the window, one per step."""


@frozen
class Record:
    """What one trainer process wrote at its end."""

    request: str
    attempt: int
    rank: int
    node: int
    clock: str
    """How the duration of a step is known: `event`, `lagged` or `blocking`, as `Runtime.clock` has it."""
    window: Window
    samples: int
    """That this process's replicas took inside the window."""
    step_times: tuple[float, ...]
    """Seconds per step inside the window, by this process's clock."""
    data_waits: tuple[float, ...]
    """Seconds per step that the loop waited for the input pipeline."""
    replicas: tuple[Replica, ...]
    deviation: float | None
    """‖y - y32‖ / ‖y32‖ of the outputs: the evidence for the precision. None: the trainer has none to offer."""
    skipped_steps: int
    """Steps inside the window that the loss scaler skipped."""
    prefetched_batches: int
    """How many batches the input pipeline can hold ready."""
    peak_host_memory: int
    """Bytes that the process held at its peak, since its start."""
    peak_device_memory: int | None
    """Bytes at the peak inside the window, summed over the process's devices. None: nobody could measure it."""
    phases: Mapping[str, float]
    """Seconds that each phase took: start, compile, warmup, measure."""
    facts: Mapping[str, Any]
    """What the runtime found: versions, devices, threads, transport."""
    observed: Mapping[str, Any]
    """What was really used, under the names of the request."""


@frozen
class Series:
    """What a sampler saw on one node: one quantity of one device over time, on the node's monotonic clock."""

    node: int
    name: str
    """`power`, `energy`, `utilisation`, `memory`, `clock`, `temperature`, …"""
    device: str
    unit: str
    kind: str
    """`gauge`, or `counter` (only its growth means something)."""
    times: tuple[float, ...]
    values: tuple[float, ...]


@frozen
class Exit:
    """How a worker process ended, as its agent saw it."""

    node: int
    role: str
    rank: int | None
    pid: int
    code: int | None
    """None where a signal ended it."""
    signal: str | None
    phase: str
    """The phase that it was in."""


@frozen
class Repeat:
    """One finished repeat: a record from every rank."""

    attempt: int
    records: tuple[Record, ...]
    series: tuple[Series, ...] = ()
    exits: tuple[Exit, ...] = ()
