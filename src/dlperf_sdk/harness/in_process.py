"""A case in this process, without planner, agents or environment, for tests and benchmarks of worker halves.

They run in the framework's environment: this module needs attrs, no other dependency of the core, and Python 3.10.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from dlperf_sdk.results.trace_summary import TraceSummary

MODELS = {"resnet50": ResNet50(), "bert-base": BertBase()}
"""Name of a model → the model."""
SMALL: Mapping[str, Mapping[str, Any]] = {
    # The last layers see 2 x 2 pixels, as at 64: with fewer values, batch norm makes fp16 overflow.
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
"""Model → options that make it small enough for any machine, with every kind of layer. Tests in this process and
the conformance suite use the same options, so that both share what a compiler has cached."""


def request(
    plugin: type[Framework],
    model: str,
    options: Mapping[str, Any] | None = None,
    framework_options: Mapping[str, Any] | None = None,
    **changes: Any,
) -> Request:
    """Return a worker's request: by default one replica on the CPU, four samples, fp32, synthetic data.

    Args:
        plugin: The framework's plugin.
        model: Name of a model in the constant `MODELS` of this module, such as `resnet50`.
        options: Options of the model by name; None for all defaults.
        framework_options: Options of the framework by name; None for all defaults.
        changes: Fields of `Request` that replace the defaults, such as `batch_size=8`.

    Raises:
        KeyError: The model is not in `MODELS`, or the plugin has no trainer for it.
        UnknownName: There is no such precision or strategy.
        SpecError: An option has an impossible value.
        TypeError: There is no option or field of a given name.
    """
    entry = MODELS[model]
    chosen = entry.Options(**(options or {}))
    precision = PRECISIONS[changes.get("precision", PRECISIONS.default)]
    strategy = STRATEGIES[changes.get("strategy", STRATEGIES.default)]
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
        "strategy": strategy.name,
        "syncs_gradients": replicas > 1 and strategy.syncs_gradients,
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
        # No protocol is run here; some frameworks use the longest deadline for their own waits.
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
    """Return a worker's request for a small model; its defaults are those of `request`, such as one replica on the CPU.

    The model's options are those that the constant `SMALL` of this module has for it. They suit any machine.

    Args:
        plugin: The framework's plugin.
        model: Name of a model in the constant `MODELS` of this module, such as `resnet50`.
        options: Options of the model by name, which take precedence over those in `SMALL`; None for no others.
        framework_options: Options of the framework by name; None for all defaults.
        changes: Fields of `Request` that replace the defaults, such as `precision="amp-bf16"`.

    Raises:
        KeyError: The model is not in `MODELS`, or the plugin has no trainer for it.
        UnknownName: There is no such precision or strategy.
        SpecError: An option has an impossible value.
        TypeError: There is no option or field of a given name.
    """
    return request(plugin, model, {**SMALL[model], **(options or {})}, framework_options, **changes)


def cluster(request: Request, ports: Sequence[str] = ()) -> Cluster:
    """Return the nodes that a request describes, all of them on this machine.

    Args:
        request: The request.
        ports: Free ports in digits, such as `29400`, as many as the framework needs; each node gets all of them. Empty
            for one replica.
    """
    devices = tuple(f"{request.device}:{i}" for i in range(request.devices_per_node))
    node = Node("127.0.0.1", tuple(ports), devices, "lo")
    return Cluster((node,) * request.nodes, request.device, request.strategy, request.framework_options)


def start(request: Request, ports: Sequence[str] = (), rank: int = 0) -> tuple[Runtime, Trainer]:
    """Let the calling process be one trainer process of a case: start the runtime, and build the trainer.

    The trainer has the canonical weights. The environment variables that the plugin's function `processes` lists for
    this trainer process are set in the calling process, and stay set. If the case has several trainer processes, the
    others must be started at the same time, since the runtime may wait for them.

    Args:
        request: The case.
        ports: Free ports in digits, such as `29400`, the same in all processes of the case; empty for one replica.
        rank: Rank of the trainer process, counted from 0 over all nodes.

    Returns:
        The runtime, which the caller must stop, and the trainer.

    Raises:
        StopIteration: The case has no trainer process of this rank.
        ImportError: The worker half, or the framework, cannot be imported.
        Unsupported: The plugin or this machine does not support the case. Other exceptions of the worker half are not
            caught, either.
    """
    nodes = cluster(request, ports)
    process = next(candidate for candidate in resolve(request.processes)(nodes) if candidate.rank == rank)
    os.environ.update(process.variables)
    runtime = resolve(request.runtime)(request, nodes, process)
    runtime.start()
    return runtime, resolve(request.trainer)(runtime, request, process)


def summarize_traced_steps(
    trainer: Trainer, plugin: type[Framework], folder: Path, steps: int = 2
) -> TraceSummary:
    """Take a step on the canonical batch, trace further steps on it with the profiler, and summarize the trace.

    Args:
        trainer: The trainer, on the CPU.
        plugin: The plugin of the trainer's framework; `capabilities.trace` says what the profiler's events stand for.
        folder: An empty folder, in which the trace `trace.json` is written.
        steps: Number of traced steps.

    Raises:
        ValueError: The plugin declares no profiler.
        Unsupported: The plugin's runtime has no profiler.
        DocumentError: The trace is not in Chrome's format, or has no event that stands for work of the device.
    """
    import gzip

    from dlperf_sdk.results.trace_summary import summarize_trace

    path, batch, declared = folder / "trace.json", trainer.canonical_batch(), plugin.capabilities.trace
    if declared is None:
        raise ValueError(f"{plugin.name} declares no profiler")
    trainer.step(batch)
    trainer.runtime.synchronize()
    with trainer.runtime.trace(str(path)):
        for _ in range(steps):
            trainer.step(batch)
        trainer.runtime.synchronize()
    summary = summarize_trace(gzip.compress(path.read_bytes()), declared, device="cpu", rank=0, steps=steps)
    assert summary is not None
    return summary


@contextlib.contextmanager
def small_trainers(plugin: type[Framework]) -> Iterator[Callable[..., Trainer]]:
    """Return a context manager whose value is a function that starts a trainer of a small model with one replica.

    The function takes the model's name, and the keyword arguments of `small_request`: `options` of the model,
    `framework_options`, and fields of the request that replace the defaults. It raises the errors of `small_request`
    and `start`, such as KeyError for an unknown model and Unsupported. On exit, the context manager closes the loaders
    of all started trainers, and stops their runtimes.

    Args:
        plugin: The framework's plugin.
    """
    started: list[tuple[Runtime, Trainer]] = []

    def make(model: str, **changes: Any) -> Trainer:
        started.append(start(small_request(plugin, model, **changes)))
        return started[-1][1]

    try:
        yield make
    finally:
        # Imported late: NumPy starts its threads on import, and a runtime decides how many.
        from dlperf_sdk.worker.base_trainer import BaseTrainer

        for runtime, trainer in started:
            for loader in trainer.loaders if isinstance(trainer, BaseTrainer) else ():
                loader.close()
            runtime.stop()
