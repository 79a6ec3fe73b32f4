"""Worker records as values (schema `worker-record`), with the repeats and failures that they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from attrs import field, frozen

from dlperf_sdk.documents.field_types import (
    Count,
    Finite,
    Index,
    Name,
    NodeIndex,
    Real,
    RunId,
    Schema,
    Seconds,
    StepLosses,
    StepSeconds,
)
from dlperf_sdk.documents.json_values import numbers
from dlperf_sdk.errors import FAILURES

FailureKind = Annotated[str, Schema(enum=list(FAILURES))]
"""A kind of `dlperf_sdk.errors.FAILURES`."""


@frozen
class Failure:
    """Failure of a case."""

    kind: FailureKind
    """Kind of failure."""
    message: str
    """Message: what happened, where, and what to do, in one paragraph."""
    phase: str | None = None
    """Phase of the worker at the failure; null if unknown."""
    node: NodeIndex | None = None
    """Node on which the failure happened; null if unknown."""
    rank: Index | None = None
    """Rank of the trainer that failed; null if unknown."""
    type: str | None = None
    """Class of the exception; null without one."""
    traceback: str | None = None
    """Traceback of the exception; null without one."""


@frozen
class Window:
    """The measured window on the node's monotonic clock, in seconds."""

    start: Seconds
    """Start of the window."""
    end: Seconds
    """End of the window."""

    @property
    def seconds(self) -> float:
        """Length of the window in seconds."""
        return self.end - self.start


@frozen
class TensorChanges:
    """Changes of the tensors of one kind over the window."""

    tensors: Count
    """Number of tensors that were compared."""
    unchanged: Annotated[tuple[str, ...], Schema(maxItems=1_000_000)]
    """Names of the tensors that are equal at the start and the end of the window, and not zero."""
    zeros: Annotated[tuple[str, ...], Schema(maxItems=1_000_000)]
    """Names of the tensors that are zero at the start and the end of the window."""

    @property
    def unchanged_count(self) -> int:
        """Number of tensors that are equal at the start and the end of the window, zero or not."""
        return len(self.unchanged) + len(self.zeros)


@frozen
class BatchAccount:
    """Comparison of the labels of the window's batches with the labels that the data source must give."""

    compared: Count
    """Number of batches that were compared; 0 if the trainer gives no labels, or the core does not know the data
    source's."""
    unexpected: Annotated[tuple[Count, ...], Schema(maxItems=100_000)]
    """Steps of the window whose batch has other labels."""


@frozen
class InputQueue:
    """Activity, inside the window, of the threads or sender processes that queue a process's batches."""

    batches: Count
    """Number of batches that were put into the queues; each is the batch of one replica."""
    seconds: Seconds
    """Seconds in which these batches were made, without the waits for room in a queue."""
    depth: Count
    """Number of batches in a queue after one was put in, summed over all batches."""


@frozen
class ExchangedBuffers:
    """The gradient buffers of one replica after a window that only exchanged gradients (part `communication`)."""

    buffers: Count
    """Number of buffers that are exchanged."""
    elements: Count
    """Number of their elements."""
    bytes: Count
    """Number of their bytes."""
    differing: Annotated[tuple[str, ...], Schema(maxItems=1_000_000)]
    """Names of the buffers that do not hold the mean over the replicas."""


@frozen
class Replica:
    """The digest and the losses of one replica."""

    index: Index
    """Index of the replica in the case, counted from 0."""
    device: str
    """Identifier of the replica's device."""
    digest: str
    """Digest over the replica's trainable parameters, after the last step."""
    canonical_losses: StepLosses = field(converter=numbers)
    """Loss of each step on the canonical batch."""
    warmup_losses: StepLosses = field(converter=numbers)
    """Loss of each warm-up step."""
    losses: StepLosses = field(converter=numbers)
    """Loss of each step inside the window."""
    changes: Mapping[Name, TensorChanges]
    """Kind of tensor (`parameters`, `moments`, `running-means`) → what changed over the window."""
    batches: BatchAccount
    """Comparison of the window's batches with those that are due."""
    audit_losses: StepLosses = field(converter=numbers)
    """Loss of each step of the audit, which repeats the first steps after the window and a reset; empty if the
    trainer cannot be reset."""
    exchanged: ExchangedBuffers | None
    """The buffers of the exchanged gradients after the window; null unless the communication is measured alone."""


@frozen
class WorkerRecord:
    """Fields of a finished trainer's record that are the same for all programs, such as `measure` and `parity`."""

    status: Literal["ok"] = field(default="ok", init=False)
    """Status of the trainer: it finished."""
    failure: None = field(default=None, init=False)
    """Always null: there is no failure."""
    request: RunId
    """Name of the run."""
    attempt: Index
    """Number of the attempt, counted from 1."""
    rank: Index
    """Index of the trainer in the case, counted from 0."""
    node: NodeIndex
    """Index of the node, counted from 0."""


@frozen
class Record(WorkerRecord):
    """The record of a trainer process that finished."""

    clock: Annotated[str, Schema(enum=["event", "lagged", "blocking"])]
    """Method that times a step: by events on the device, by waiting one step behind, or because the framework
    blocks (`Runtime.clock`)."""
    window: Window
    """The measured window."""
    samples: Count
    """Samples that this process's replicas took inside the window."""
    step_times: StepSeconds
    """Seconds per step inside the window, by this process's clock."""
    data_waits: StepSeconds
    """Seconds per step that the loop waited for the input pipeline."""
    replicas: Annotated[tuple[Replica, ...], Schema(maxItems=999_999)]
    """The replicas that this process owns."""
    deviation: Real | None
    """Distance of the outputs from plain fp32, relative to their norm (‖y - y32‖ / ‖y32‖): the evidence for the
    precision; null if the trainer has none."""
    updates: Count | None
    """Updates inside the window, as the framework's optimizer counts them; null if it does not."""
    audit_step_times: StepSeconds
    """Seconds of each step of the audit, the device synchronized after each."""
    audit_seeded: bool
    """True if the framework's random state was set back for the audit, so that dropout draws the same masks."""
    skipped_steps: Count
    """Steps inside the window that the loss scaler skipped."""
    prefetched_batches: Count
    """Batches that the input pipeline can hold ready."""
    input_queue: InputQueue | None
    """Activity of what queues the batches; null if the data source has no queue."""
    peak_host_memory: Count
    """Bytes of host memory at the peak, since the start of the process."""
    peak_device_memory: Count | None
    """Bytes of device memory at the peak inside the window, summed over the process's devices; null if it cannot be
    measured."""
    phases: Mapping[Name, Seconds]
    """Seconds that each phase took: start, compile, warmup, measure, verify."""
    facts: Mapping[str, Any]
    """Facts that the runtime reported: versions, devices, threads, transport."""
    observed: Mapping[str, Any]
    """The settings in effect, under the names of the request."""


@frozen
class WorkerFailure:
    """Failure of a trainer process."""

    kind: FailureKind
    """Kind of failure."""
    phase: str | None
    """The phase that it was in."""
    type: str | None
    """The exception's class."""
    message: str
    """Description of the failure."""
    traceback: str | None
    """The exception's traceback."""


@frozen
class FailedRecord:
    """The record of a trainer process that failed. It is the same for all programs, such as `measure` and `parity`."""

    status: Literal["failed"] = field(default="failed", init=False)
    """Status of the trainer: it failed."""
    failure: WorkerFailure
    """Failure of the process."""
    request: RunId
    """Name of the run."""
    attempt: Index
    """Number of the attempt, counted from 1."""
    rank: Index
    """Index of the trainer in the case, counted from 0."""
    node: NodeIndex
    """Index of the node, counted from 0."""


@frozen
class Series:
    """Samples of one quantity of one device over time, taken by a sampler on one node."""

    node: NodeIndex
    """Index of the node, counted from 0."""
    name: str
    """The quantity: `power`, `energy`, `utilization`, `memory`, `clock`, `temperature`, …"""
    device: str
    """The device."""
    unit: str
    """Unit of the values."""
    kind: Annotated[str, Schema(enum=["gauge", "counter"])]
    """`gauge`, or `counter` (only its growth means something)."""
    times: StepSeconds
    """Times of the samples on the node's monotonic clock, in seconds."""
    values: Annotated[tuple[Finite, ...], Schema(maxItems=10_000_000)]
    """The samples, one per time."""


@frozen
class Exit:
    """Exit of a worker process, as its agent saw it."""

    node: NodeIndex
    """Index of the node, counted from 0."""
    role: Annotated[str, Schema(enum=["trainer", "service"])]
    """Role of the process."""
    rank: Index | None
    """Rank of a trainer; null for a service."""
    pid: Count
    """Process id."""
    code: Annotated[int, Schema(minimum=-(2**31), maximum=2**32)] | None
    """Exit code; null if a signal ended it."""
    signal: str | None
    """Name of the signal that ended the process; null without one."""
    phase: str
    """Phase of the process when it ended."""


@frozen
class Repeat:
    """One finished repeat: a record from every rank."""

    attempt: Index
    """Number of the attempt, counted from 1."""
    records: tuple[Record, ...]
    """The records of the trainers."""
    series: tuple[Series, ...] = ()
    """The samplers' series."""
    exits: tuple[Exit, ...] = ()
    """Exits of the workers."""
