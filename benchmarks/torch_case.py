"""A case of the torch plugin without agents: runtime and trainer in this process, as a worker makes them.

Needs torch, NumPy and attrs. Set the threads (`take_threads`) before torch is imported.
"""

from __future__ import annotations

import os
from typing import Any

import attrs
from dlperf_torch.framework import Torch

from dlperf_sdk.interfaces.model import plain
from dlperf_sdk.models.bert_base import BertBase
from dlperf_sdk.models.resnet50 import ResNet50
from dlperf_sdk.worker.affinity import thread_variables
from dlperf_sdk.worker.interface import Runtime, Trainer
from dlperf_sdk.worker.processes import Cluster, Node
from dlperf_sdk.worker.request import Request, resolve

MODELS = {"resnet50": ResNet50(), "bert-base": BertBase()}


def take_threads(threads: int | None) -> int:
    """Give this process the threads that an agent gives a lone worker: all usable processors, or so many."""
    count = len(os.sched_getaffinity(0)) if threads is None else threads
    os.environ.update(thread_variables(count))
    return count


def request(
    model: str, options: dict[str, Any], batch_size: int, precision: str = "fp32", layout: str = "auto"
) -> Request:
    """What a worker is told about one replica on the CPU, eager, with synthetic data."""
    entry = MODELS[model]
    chosen = entry.Options(**options)
    optimizer = entry.optimizer(chosen, batch_size)
    return Request(
        id="benchmark",
        framework="torch",
        model=model,
        runtime=Torch.runtime,
        trainer=Torch.trainers[model],
        processes=Torch.processes,
        nodes=1,
        devices_per_node=1,
        device="cpu",
        strategy="all_reduce",
        batch_size=batch_size,
        accumulation=1,
        precision=precision,
        compiler="none",
        layout=layout,
        seed=0,
        data={"source": "synthetic"},
        parameters=[plain(parameter) for parameter in entry.parameters(chosen)],
        inputs=[plain(item) for item in entry.inputs(chosen)],
        optimizer={"kind": optimizer.kind, "policy": "constant", **optimizer.numbers},
        model_options=attrs.asdict(chosen),
        framework_options=attrs.asdict(Torch.Options()),
        protocol={},
        deadlines={},
        command=[],
        variables={},
        samplers=[],
        on_busy="note",
    )


def start(asked: Request) -> tuple[Runtime, Trainer]:
    """The runtime, started, and the trainer with the canonical weights."""
    node = Node("127.0.0.1", (), ("cpu:0",))
    cluster = Cluster((node,), asked.device, asked.strategy)
    process = resolve(asked.processes)(cluster)[0]
    runtime = resolve(asked.runtime)(asked, cluster, process)
    runtime.start()
    return runtime, resolve(asked.trainer)(runtime, asked, process)
