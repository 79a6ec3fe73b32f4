"""The trace program: a few steps under the framework's own profiler. It measures nothing."""

import base64
import gzip
import os
from typing import Any, Dict

from dlperf_sdk.worker.interface import Runtime, Trainer
from dlperf_sdk.worker.progress import Progress
from dlperf_sdk.worker.request import Request
from dlperf_sdk.worker.unsupported import Unsupported

MAX_BYTES = 32 * 1024 * 1024
"""Maximum number of bytes of a compressed trace: the record that holds it must not exceed the size that agents read."""


def follow(runtime: Runtime, trainer: Trainer, request: Request, progress: Progress) -> Dict[str, Any]:
    """Warm up as a measured repeat does, then take steps under the framework's profiler.

    The profiler writes `trace.json` into the working directory.

    Args:
        runtime: The started runtime.
        trainer: A trainer that has taken no step.
        request: The case. Its protocol has the numbers of steps: `canonical_steps` and `warmup` before the profiler
            starts, and `steps` under it.
        progress: The worker's progress, whose phase and step counter are set.

    Returns:
        A dict with `trace`: the profiler's file, compressed with gzip, in base64.

    Raises:
        Unsupported: The runtime has no profiler to offer, the plugin cannot read the data source, or the compressed
            file has more than `MAX_BYTES` bytes (32 MiB).
        DataError: The prepared data is missing, is not what the controller prepared, or has a sample that cannot be
            read.
        OSError: The profiler's file cannot be read.
    """
    progress.enter("warmup")
    batch = trainer.canonical_batch()
    for i in range(request.protocol["canonical_steps"]):
        trainer.step(batch)
        progress.counters[1] = i + 1
    batches = trainer.batches()
    for i in range(request.protocol["warmup"]):
        trainer.step(next(batches))
        progress.counters[1] = request.protocol["canonical_steps"] + i + 1
    runtime.synchronize()
    path = os.path.abspath("trace.json")
    progress.enter("measure")
    with runtime.trace(path):
        for i in range(request.protocol["steps"]):
            trainer.step(next(batches))
            progress.counters[1] = i + 1
        runtime.synchronize()
    progress.enter("teardown")
    with open(path, "rb") as file:
        packed = gzip.compress(file.read(), 6)
    if len(packed) > MAX_BYTES:
        raise Unsupported(
            "the trace takes %d bytes, and %d can be handed on; take fewer steps" % (len(packed), MAX_BYTES)
        )
    return {"trace": base64.b64encode(packed).decode("ascii")}
