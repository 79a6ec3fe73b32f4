"""A case of the torch plugin without agents: runtime and trainer in this process, as a worker makes them.

Needs torch, NumPy and attrs. Set the threads (`take_threads`) before torch is imported.
"""

from __future__ import annotations

import os
from typing import Any

from dlperf_torch.framework import Torch

from dlperf_sdk.harness import in_process
from dlperf_sdk.harness.in_process import start
from dlperf_sdk.worker.agent.affinity import thread_variables
from dlperf_sdk.worker.request import Request

__all__ = ["request", "start", "take_threads"]


def take_threads(threads: int | None) -> int:
    """Give this process the threads that an agent gives a lone worker, and return their number.

    It is `threads`; None stands for all usable processors. Call this before torch is imported.
    """
    count = len(os.sched_getaffinity(0)) if threads is None else threads
    os.environ.update(thread_variables(count))
    return count


def request(
    model: str,
    options: dict[str, Any],
    batch_size: int,
    precision: str = "fp32",
    device: str = "cpu",
    **changes: Any,
) -> Request:
    """Return the request of one replica with synthetic data, eager unless `changes` say otherwise.

    Args:
        model: Name of the model.
        options: Options of the model.
        batch_size: Samples per step.
        precision: Name of the precision.
        device: Kind of the device, `cpu` or `cuda`.
        changes: Further arguments of `in_process.request`.
    """
    return in_process.request(
        Torch, model, options, batch_size=batch_size, precision=precision, device=device, **changes
    )
