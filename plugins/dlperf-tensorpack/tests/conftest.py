"""Worker halves for the tests, without agents, on Python 3.7.

The controller's modules need a newer Python. The interpreter of the checkout makes the requests, in a process of its
own.
"""

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
_PROGRAM = """
import json, sys
from dlperf_sdk.harness.in_process import small_request
from dlperf_tensorpack.framework import Tensorpack
model, changes = json.loads(sys.argv[1])
print(json.dumps(small_request(Tensorpack, model, **changes).to_dict()))
"""


def make_request(model, **changes):
    """Return the request of a small case, as `in_process.small_request` makes it."""
    from dlperf_sdk.worker.request import Request

    command = [str(ROOT / ".venv/bin/python"), "-c", _PROGRAM, json.dumps([model, changes])]
    return Request.from_json(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode())


def start_trainer(request, runtime, trainer):
    """Return a trainer of a case with one process, its runtime started; both are named as `module:attribute`."""
    from dlperf_sdk.worker.processes import Cluster, Node
    from dlperf_sdk.worker.request import resolve

    devices = tuple(f"cpu:{device}" for device in range(request.devices_per_node))
    cluster = Cluster((Node("127.0.0.1", (), devices, "lo"),), "cpu", request.strategy, {})
    process = resolve(request.processes)(cluster)[0]
    started = resolve(runtime)(request, cluster, process)
    started.start()
    return resolve(trainer)(started, request, process)


@pytest.fixture
def make_trainer(monkeypatch):
    """Builds the trainer of a case: `make_trainer("resnet50")`; `plugin` names another plugin's worker half."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    trainers = []

    def make(model, plugin="tensorpack", **changes):
        request = make_request(model, **changes)
        runtime, trainer = (
            text.replace("tensorpack", plugin).replace("Tensorpack", "TensorFlow1")
            if plugin != "tensorpack"
            else text
            for text in (request.runtime, request.trainer)
        )
        trainers.append(start_trainer(request, runtime, trainer))
        return trainers[-1]

    yield make
    for trainer in trainers:
        trainer.runtime.stop()
