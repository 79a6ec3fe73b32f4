"""Worker halves for the tests, without agents: requests as the planner makes them, of small cases."""

import attrs
import pytest
from dlperf_paddle.framework import Paddle

from dlperf_sdk.interfaces.model import plain
from dlperf_sdk.models.bert_base import BertBase
from dlperf_sdk.models.resnet50 import ResNet50
from dlperf_sdk.worker.processes import Cluster, Node
from dlperf_sdk.worker.request import Request, resolve

MODELS = {"resnet50": ResNet50(), "bert-base": BertBase()}
SMALL = {
    "resnet50": {"image_size": 64, "num_classes": 10},
    "bert-base": {
        "sequence_length": 16,
        "layers": 2,
        "hidden_size": 64,
        "heads": 4,
        "intermediate_size": 128,
        "vocabulary_size": 1000,
        "predictions_per_sequence": 3,
        "dropout": 0.0,
    },
}


def make_request(model, options=None, framework_options=None, **changes):
    """A request for a small case of the model; `options` are the model's."""
    entry = MODELS[model]
    chosen = entry.Options(**{**SMALL[model], **(options or {})})
    replicas = changes.get("nodes", 1) * changes.get("devices_per_node", 1)
    optimizer = entry.optimizer(chosen, changes.get("batch_size", 4) * replicas)
    fields = {
        "id": "test",
        "framework": "paddle",
        "model": model,
        "runtime": Paddle.runtime,
        "trainer": Paddle.trainers[model],
        "processes": Paddle.processes,
        "nodes": 1,
        "devices_per_node": 1,
        "device": "cpu",
        "strategy": "all_reduce",
        "batch_size": 4,
        "accumulation": 1,
        "precision": "fp32",
        "compiler": "none",
        "layout": "auto",
        "seed": 0,
        "data": {"source": "synthetic"},
        "parameters": [plain(parameter) for parameter in entry.parameters(chosen)],
        "inputs": [plain(entry) for entry in entry.inputs(chosen)],
        "optimizer": {"kind": optimizer.kind, "policy": "constant", **optimizer.numbers},
        "model_options": attrs.asdict(chosen),
        "framework_options": attrs.asdict(Paddle.Options(**(framework_options or {}))),
        "protocol": {
            "warmup": 1,
            "steps": 2,
            "repeats": 1,
            "max_repeats": 1,
            "target": None,
            "canonical_steps": 3,
        },
        "deadlines": {"start": 60.0, "compile": 60.0, "warmup": 60.0, "step": 60.0, "teardown": 60.0},
        "command": [],
        "variables": {},
        "samplers": [],
        "on_busy": "note",
    }
    return Request(**{**fields, **changes})


def make_cluster(request, ports=()):
    """The nodes that the request asks for, all on this machine; `ports` are enough for the replicas of one."""
    devices = tuple(f"cpu:{i}" for i in range(request.devices_per_node))
    node = Node("127.0.0.1", tuple(ports), devices, "lo")
    options = request.framework_options
    return Cluster((node,) * request.nodes, request.device, request.strategy, options)


@pytest.fixture
def make_trainer():
    """Builds the trainer of a case with one replica, its runtime started: `make_trainer("resnet50")`."""
    runtimes = []

    def make(model, **changes):
        request = make_request(model, **changes)
        cluster = make_cluster(request)
        process = resolve(request.processes)(cluster)[0]
        runtime = resolve(request.runtime)(request, cluster, process)
        runtime.start()
        runtimes.append(runtime)
        return resolve(request.trainer)(runtime, request, process)

    yield make
    for runtime in runtimes:
        runtime.stop()
