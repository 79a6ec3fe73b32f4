"""A case of any framework's plugin without agents: runtime and trainer in this process, as a worker makes them.

Needs the framework, NumPy and attrs.
"""

from __future__ import annotations

from typing import Any

import attrs

from dlperf_sdk.interfaces.framework import Framework
from dlperf_sdk.interfaces.model import plain
from dlperf_sdk.models.bert_base import BertBase
from dlperf_sdk.models.resnet50 import ResNet50
from dlperf_sdk.worker.interface import Runtime, Trainer
from dlperf_sdk.worker.processes import Cluster, Node
from dlperf_sdk.worker.request import Request, resolve

MODELS = {"resnet50": ResNet50(), "bert-base": BertBase()}


def request(
    plugin: type[Framework],
    model: str,
    options: dict[str, Any],
    batch_size: int,
    precision: str = "fp32",
    layout: str = "auto",
    compiler: str = "none",
) -> Request:
    """What a worker is told about one replica on the CPU, with synthetic data."""
    entry = MODELS[model]
    chosen = entry.Options(**options)
    optimizer = entry.optimizer(chosen, batch_size)
    return Request(
        id="benchmark",
        framework=plugin.name,
        model=model,
        runtime=plugin.runtime,
        trainer=plugin.trainers[model],
        processes=plugin.processes,
        nodes=1,
        devices_per_node=1,
        device="cpu",
        strategy="all_reduce",
        batch_size=batch_size,
        accumulation=1,
        precision=precision,
        compiler=compiler,
        layout=layout,
        seed=0,
        data={"source": "synthetic"},
        parameters=[plain(parameter) for parameter in entry.parameters(chosen)],
        inputs=[plain(item) for item in entry.inputs(chosen)],
        optimizer={"kind": optimizer.kind, "policy": "constant", **optimizer.numbers},
        model_options=attrs.asdict(chosen),
        framework_options=attrs.asdict(plugin.Options()),
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
    cluster = Cluster((node,), asked.device, asked.strategy, asked.framework_options)
    process = resolve(asked.processes)(cluster)[0]
    runtime = resolve(asked.runtime)(asked, cluster, process)
    runtime.start()
    return runtime, resolve(asked.trainer)(runtime, asked, process)
