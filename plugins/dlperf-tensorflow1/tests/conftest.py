"""Worker halves for the tests, without agents, on Python 3.7.

The controller's modules need a newer Python. The interpreter of the checkout makes the requests, in a process of its
own.
"""

import json
import os
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

ROOT = Path(__file__).resolve().parents[3]
_PROGRAM = """
import json, sys
from dlperf_sdk.harness.in_process import small_request
from dlperf_tensorflow1.framework import TensorFlow1
model, changes = json.loads(sys.argv[1])
print(json.dumps(small_request(TensorFlow1, model, **changes).to_dict()))
"""


def make_request(model, **changes):
    """Return the request of a small case, as `in_process.small_request` makes it."""
    from dlperf_sdk.worker.request import Request

    command = [str(ROOT / ".venv/bin/python"), "-c", _PROGRAM, json.dumps([model, changes])]
    return Request.from_json(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode())


@pytest.fixture
def make_trainer(monkeypatch):
    """Builds the trainer of a case with one replica, its runtime started: `make_trainer("resnet50")`."""
    from dlperf_sdk.worker.processes import Cluster, Node
    from dlperf_sdk.worker.request import resolve

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    trainers = []

    def make(model, **changes):
        request = make_request(model, **changes)
        node = Node("127.0.0.1", (), ("cpu:0",), "lo")
        cluster = Cluster((node,), "cpu", request.strategy, request.framework_options)
        process = resolve(request.processes)(cluster)[0]
        runtime = resolve(request.runtime)(request, cluster, process)
        runtime.start()
        trainers.append(resolve(request.trainer)(runtime, request, process))
        return trainers[-1]

    yield make
    for trainer in trainers:
        for loader in trainer.loaders:
            loader.close()
        trainer.runtime.stop()


@pytest.fixture(params=["parameter_server", "distributed_replicated"])
def served_pair(request, monkeypatch):
    """Two trainers of BERT that share the variables of a parameter server; all servers are in this process."""
    yield from make_served_pair(request.param, monkeypatch)


@pytest.fixture
def replicated_pair(monkeypatch):
    """`served_pair` with `distributed_replicated`."""
    yield from make_served_pair("distributed_replicated", monkeypatch)


@pytest.fixture
def stale_pair(monkeypatch):
    """`replicated_pair` with a planted fault: a step renews no copy of the parameters."""
    from dlperf_tensorflow1.worker.exchange import DistributedReplicated, ParameterServers

    monkeypatch.setattr(DistributedReplicated, "add_update", ParameterServers.add_update)
    yield from make_served_pair("distributed_replicated", monkeypatch)


@pytest.fixture
def late_pair(monkeypatch):
    """`replicated_pair`, where the second initializes variables before the first copies what it set on the servers."""
    from dlperf_tensorflow1.worker.exchange import DistributedReplicated
    from dlperf_tensorflow1.worker.training import TensorFlow1Trainer

    loaded, initialized, copied, copies = Event(), Event(), Event(), {}
    build_graph, load_weights = TensorFlow1Trainer._build_graph, TensorFlow1Trainer.load_canonical_weights

    def build_late(trainer):
        if trainer.runtime.replica == 1:
            loaded.wait(2)
        parameters = build_graph(trainer)
        if trainer.runtime.replica == 1:
            initialized.set()
        return parameters

    def load_late(trainer, parameters):
        if trainer.runtime.replica == 1:
            copied.wait(10)
        load_weights(trainer, parameters)
        copied.set()

    def copy_late(exchange):
        loaded.set()
        initialized.wait(10)
        return copies[exchange]

    monkeypatch.setattr(TensorFlow1Trainer, "_build_graph", build_late)
    monkeypatch.setattr(TensorFlow1Trainer, "load_canonical_weights", load_late)
    monkeypatch.setattr(
        DistributedReplicated, "copies", property(copy_late, copies.__setitem__), raising=False
    )
    yield from make_served_pair("distributed_replicated", monkeypatch)


def make_served_pair(strategy, monkeypatch):
    """Yield two trainers with a strategy that has parameter servers, and stop them afterwards."""
    from dlperf_tensorflow1.worker.cluster import start_server

    from dlperf_sdk.worker.processes import SERVICE, Cluster, Node
    from dlperf_sdk.worker.request import resolve

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    request = make_request("bert-base", devices_per_node=2, strategy=strategy)
    sockets = [socket.socket() for _ in range(3)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = tuple(str(one.getsockname()[1]) for one in sockets)
    for one in sockets:
        one.close()
    nodes, started = (Node("127.0.0.1", ports, ("cpu:0", "cpu:1"), "lo"),), []
    cluster = Cluster(nodes, "cpu", request.strategy, request.framework_options)
    for process in resolve(request.processes)(cluster):
        monkeypatch.setitem(os.environ, "TF_CONFIG", process.variables["TF_CONFIG"])
        if process.role == SERVICE:
            start_server(None)
        else:
            runtime = resolve(request.runtime)(request, cluster, process)
            runtime.start()
            started.append((runtime, process))
    with ThreadPoolExecutor(2) as pool:
        pair = list(pool.map(lambda one: resolve(request.trainer)(one[0], request, one[1]), started))
    yield pair
    for runtime, _ in started:
        runtime.stop()
