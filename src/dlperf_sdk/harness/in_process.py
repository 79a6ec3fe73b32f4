"""A case in this very process, without planner, agents or environment: for tests and benchmarks of worker halves.

They run where the framework is: this needs attrs, and nothing else that the core depends on; Python 3.10 is enough.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from dlperf_sdk.interfaces.framework import Framework
from dlperf_sdk.interfaces.model import entry_to_dict
from dlperf_sdk.models.bert_base import BertBase
from dlperf_sdk.models.resnet50 import ResNet50
from dlperf_sdk.spec.compiler import COMPILERS
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.strategy import STRATEGIES
from dlperf_sdk.worker.interface import Runtime, Trainer
from dlperf_sdk.worker.processes import Cluster, Node
from dlperf_sdk.worker.request import Request, resolve

MODELS = {"resnet50": ResNet50(), "bert-base": BertBase()}
SMALL: Mapping[str, Mapping[str, Any]] = {
    # Its last layers see 2 x 2 pixels, as at 64: over fewer values batch norm has steps that overflow in fp16.
    "resnet50": {"image_size": 40, "num_classes": 10},
    "bert-base": {
        "sequence_length": 32,
        "layers": 1,
        "hidden_size": 128,
        "heads": 4,
        "intermediate_size": 256,
        "vocabulary_size": 1000,
        "predictions_per_sequence": 4,
        "dropout": 0.0,
    },
}
"""Model → options that make it small enough for any machine, with every kind of layer left in. Tests in this process
and the conformance suite have the same: what a compiler has made for one serves the others."""


def request(
    plugin: type[Framework],
    model: str,
    options: Mapping[str, Any] | None = None,
    framework_options: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Request:
    """Build a worker's request: by default one replica on the CPU, four samples, fp32, synthetic data.

    Args:
        plugin: the framework.
        model: the model's name.
        options: the model's options.
        framework_options: the framework's options.
        changes: fields of the request that replace the defaults.

    Raises:
        SpecError: an option has an impossible value.
    """
    entry = MODELS[model]
    chosen = entry.Options(**(options or {}))
    precision = PRECISIONS[changes.get("precision", PRECISIONS.default)]
    replicas = changes.get("nodes", 1) * changes.get("devices_per_node", 1)
    optimizer = entry.optimizer(chosen, changes.get("batch_size", 4) * replicas)
    fields: dict[str, Any] = {
        "id": "in-process",
        "framework": plugin.name,
        "model": model,
        "runtime": plugin.runtime,
        "trainer": plugin.trainers[model],
        "processes": plugin.processes,
        "nodes": 1,
        "devices_per_node": 1,
        "device": "cpu",
        "strategy": STRATEGIES.default,
        "batch_size": 4,
        "accumulation": 1,
        "precision": PRECISIONS.default,
        "compiler": COMPILERS.default,
        "layout": "auto",
        "seed": 0,
        "data": {"source": DATA_SOURCES.default},
        "parameters": [entry_to_dict(parameter) for parameter in entry.parameters(chosen)],
        "inputs": [entry_to_dict(item) for item in entry.inputs(chosen)],
        "optimizer": {"kind": optimizer.kind, "policy": "constant", **optimizer.numbers},
        "model_options": attrs.asdict(chosen),
        "framework_options": attrs.asdict(plugin.Options(**(framework_options or {}))),
        # Nothing here runs a protocol; some frameworks give the longest deadline to what they wait for.
        "protocol": {},
        "deadlines": {"start": 60.0, "compile": 60.0, "warmup": 60.0, "step": 60.0, "teardown": 60.0},
        "command": [],
        "variables": {},
        "samplers": [],
        "on_busy": "note",
        "scales_loss": precision.scales_loss,
        "loss_scale": precision.loss_scale,
    }
    return Request(**{**fields, **changes})


def small_request(
    plugin: type[Framework],
    model: str,
    options: Mapping[str, Any] | None = None,
    framework_options: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Request:
    """Return the request of a small case: `request` with the model's options of `SMALL` below the given ones."""
    return request(plugin, model, {**SMALL[model], **(options or {})}, framework_options, **changes)


def cluster(request: Request, ports: Sequence[str] = ()) -> Cluster:
    """Return the nodes that the request asks for, all on this machine.

    One replica needs no `ports`; several need as many as their framework takes of each node.
    """
    devices = tuple(f"{request.device}:{i}" for i in range(request.devices_per_node))
    node = Node("127.0.0.1", tuple(ports), devices, "lo")
    return Cluster((node,) * request.nodes, request.device, request.strategy, request.framework_options)


def start(request: Request, ports: Sequence[str] = (), rank: int = 0) -> tuple[Runtime, Trainer]:
    """Start the runtime of one trainer process and create its trainer with the canonical weights.

    This process has the variables of that one from here on.
    """
    nodes = cluster(request, ports)
    process = next(candidate for candidate in resolve(request.processes)(nodes) if candidate.rank == rank)
    os.environ.update(process.variables)
    runtime = resolve(request.runtime)(request, nodes, process)
    runtime.start()
    return runtime, resolve(request.trainer)(runtime, request, process)


@contextlib.contextmanager
def small_trainers(plugin: type[Framework]) -> Iterator[Callable[..., Trainer]]:
    """Provide a factory of trainers of small cases with one replica.

    It takes `small_request`'s arguments after the plugin; their loaders are closed and their runtimes stopped at the
    end.
    """
    started: list[tuple[Runtime, Trainer]] = []

    def make(model: str, **changes: Any) -> Trainer:
        started.append(start(small_request(plugin, model, **changes)))
        return started[-1][1]

    try:
        yield make
    finally:
        # Not earlier: NumPy starts its threads when it is imported, and a runtime decides how many.
        from dlperf_sdk.worker.base_trainer import BaseTrainer

        for runtime, trainer in started:
            for loader in trainer.loaders if isinstance(trainer, BaseTrainer) else ():
                loader.close()
            runtime.stop()
