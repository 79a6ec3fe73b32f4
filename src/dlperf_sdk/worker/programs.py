"""The programs of a trainer process: measure a case, follow its parity reference, trace it."""

from time import monotonic
from typing import Any, Callable, Dict, NamedTuple

from dlperf_sdk.worker import loop
from dlperf_sdk.worker.audit import repeat_first_steps
from dlperf_sdk.worker.digest import digest_of
from dlperf_sdk.worker.interface import Runtime, Trainer
from dlperf_sdk.worker.parts import open_part
from dlperf_sdk.worker.processes import Cluster, Process
from dlperf_sdk.worker.progress import Progress
from dlperf_sdk.worker.request import PARITY_VERSION, RECORD_VERSION, Request

PROGRAMS = {
    "measure": "dlperf_sdk.worker.programs:measure",
    "parity": "dlperf_sdk.worker.programs:follow_reference",
    "trace": "dlperf_sdk.worker.programs:trace",
    "conformance": "dlperf_sdk.worker.conformance:check",
    "answer": "dlperf_sdk.worker.conformance:answer",
    "exhaust": "dlperf_sdk.worker.conformance:exhaust",
}
"""Program (`Request.program`) → `module:function`, which takes a `Task` and returns fields of the record."""
LOSSES = ("losses", "warmup_losses", "canonical_losses", "audit_losses")
"""Fields of a replica, one number per step."""


class Task(NamedTuple):
    """Input of a program: a runtime that was started, a trainer that was built, and their case."""

    runtime: Runtime
    trainer: Trainer
    request: Request
    cluster: Cluster
    process: Process
    progress: Progress
    wait_for_go: Callable[[], None]
    """Function that blocks until all workers of the case may begin the window."""


def measure(task: Task) -> Dict[str, Any]:
    """Run one measured repeat, compute the digest of each replica's parameters, and repeat the first steps as an audit.

    Args:
        task: The started runtime, and a trainer that has taken no step.

    Returns:
        Fields of the record (`dlperf_sdk.results.records.Record`), as JSON values; NaN and infinite numbers are the
        texts `nan`, `inf` and `-inf`:

        - of the measurement: `clock`, `window`, `samples`, `step_times` and `data_waits` (seconds per step), `updates`,
          `skipped_steps`, `prefetched_batches`, `input_queue`, `peak_host_memory` and `peak_device_memory` (bytes),
          `deviation` and `phases` (seconds);
        - of the audit: `audit_step_times` (seconds) and `audit_seeded`;
        - `replicas`, a list with a dict per replica of this process, in their order: `index`, `device`, `digest`,
          `changes`, `batches`, `exchanged`, and the lists `losses`, `warmup_losses`, `canonical_losses` and
          `audit_losses` with one number per step;
        - `schema_version`.

    Raises:
        Unsupported: The trainer does not support the request's part of a step or its data source.
        DataError: The prepared data is missing, is not what the controller prepared, or has a sample that cannot be
            read.
        ValueError: The trainer's parameters are not the manifest's.
    """
    part = open_part(task)
    task = part.task
    trainer, protocol = task.trainer, task.request.protocol
    measured = loop.measure(task.runtime, trainer, protocol, task.progress, task.wait_for_go)
    measured_at = monotonic()
    exchanged = part.exchanged()
    digests = [
        digest_of(task.request.parameters, trainer.parameters(i)) for i in range(len(task.process.replicas))
    ]
    measured.update(repeat_first_steps(task.runtime, trainer, protocol, task.progress))
    measured["phases"]["verify"] += monotonic() - measured_at
    task.progress.enter("teardown")
    losses = {name: measured.pop(name) for name in LOSSES}
    changes, batches = measured.pop("changes"), measured.pop("batches")
    measured["replicas"] = [
        dict(
            # A step of a part that trains nothing has no losses.
            {name: [_portable(step[i]) for step in steps if step] for name, steps in losses.items()},
            index=replica,
            device=task.cluster.device_of(replica),
            digest=digests[i],
            changes=changes[i],
            batches=batches[i],
            exchanged=None if exchanged is None else exchanged[i],
        )
        for i, replica in enumerate(task.process.replicas)
    ]
    if measured["deviation"] is not None:
        measured["deviation"] = _portable(measured["deviation"])
    return dict(measured, schema_version=RECORD_VERSION)


def follow_reference(task: Task) -> Dict[str, Any]:
    """Take the steps of a parity run, which are not timed.

    Args:
        task: The started runtime, and a trainer that has taken no step.

    Returns:
        Fields of the parity record (`dlperf_sdk.parity.record.ParityRecord`), as JSON values: `skipped_steps`;
        `replicas`, a list with a dict per replica of this process (`index`, `losses`, `digest`, and the fingerprints
        `updates` and `running_means` by name); and `schema_version`. NaN and infinite numbers are the texts `nan`,
        `inf` and `-inf`.

    Raises:
        RuntimeError: The loss scaler skipped more than 20 steps.
        ValueError: The trainer's parameters are not the manifest's.
        Unsupported: The plugin cannot read the data source.
        DataError: The prepared data is missing, is not what the controller prepared, or has a sample that cannot be
            read.
    """
    from dlperf_sdk.worker import parity  # it needs NumPy, which a measured run does without

    followed = parity.follow(task.runtime, task.trainer, task.request, task.process, task.progress)
    for replica in followed["replicas"]:
        for name in ("losses", "updates", "running_means"):
            replica[name] = _portable(replica[name])
    return dict(followed, schema_version=PARITY_VERSION)


def trace(task: Task) -> Dict[str, Any]:
    """Warm up, then take the protocol's number of steps under the framework's profiler; nothing is timed.

    The profiler writes `trace.json` into the working directory.

    Args:
        task: The started runtime, and a trainer that has taken no step.

    Returns:
        A dict with `trace`: the profiler's file, compressed with gzip, in base64.

    Raises:
        Unsupported: The runtime has no profiler to offer, the compressed trace has more than 32 MiB, or the trainer
            does not support the request's part of a step or its data source.
        DataError: The prepared data is missing, is not what the controller prepared, or has a sample that cannot be
            read.
        OSError: The profiler's file cannot be read.
    """
    from dlperf_sdk.worker import tracing

    part = open_part(task).task
    return tracing.follow(part.runtime, part.trainer, part.request, part.progress)


def _portable(value: Any) -> Any:
    """Return numbers as JSON values: NaN and the infinities as the texts `nan`, `inf` and `-inf`, others as floats.

    Args:
        value: A number, or lists and dicts of numbers, nested at will. The result has the same structure.
    """
    if isinstance(value, dict):
        return {name: _portable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_portable(item) for item in value]
    number = float(value)
    if number != number:
        return "nan"
    if number in (float("inf"), float("-inf")):
        return "inf" if number > 0 else "-inf"
    return number
