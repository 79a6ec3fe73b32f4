"""The controller half: what it offers and refuses, its processes, its lock. None of it needs TensorFlow."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from dlperf_tensorflow import processes as processes_module
from dlperf_tensorflow.framework import TensorFlow
from dlperf_tensorflow.processes import processes

from dlperf_sdk import RunSpec
from dlperf_sdk.errors import SpecError, Unsupported
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.worker.processes import SERVICE, TRAINER, Cluster, Node

CASE = {"framework": "tensorflow", "model": "resnet50", "device": "cpu"}


def test_the_controller_half_imports_no_tensorflow():
    code = (
        "import sys, dlperf_tensorflow.framework, dlperf_tensorflow.processes\n"
        "found = sorted({'tensorflow', 'keras', 'numpy'} & set(sys.modules))\n"
        "assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_shared_half_is_python_3_7():
    ast.parse(Path(processes_module.__file__).read_text(encoding="utf-8"), feature_version=(3, 7))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"layout": "nchw"}, "nhwc"),
        ({"layout": "nchw", "device": "cuda"}, None),
        ({"precision": "tf32", "device": "cuda"}, None),
        ({"precision": "amp-fp16"}, None),
        ({"precision": "fp16"}, None),
        ({}, None),
    ],
)
def test_refuses(change, word):
    reason = TensorFlow().explain_refusal(RunSpec(**CASE | change), TensorFlow.Options())
    assert reason is None if word is None else word in reason


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"device": "cuda"}, "--device cpu"),
        ({"compiler": "xla"}, "one device"),
        ({"precision": "amp-fp16"}, "loss scale"),
        ({"data": "images"}, "images"),
        ({"data": "synthetic-host"}, "synthetic-host"),
        ({"precision": "amp-bf16"}, None),
        ({}, None),
    ],
)
def test_settings_that_parameter_servers_lack_are_refused(change, word):
    case = {**CASE, "strategy": "parameter_server_async", **change}
    for devices in ({"topology": "1n2d"}, {"topology": "2n1d"}):
        reason = TensorFlow().explain_refusal(RunSpec(**case | devices), TensorFlow.Options())
        assert reason is None if word is None else word in reason
    # One replica has nobody to meet: no servers are started for it.
    assert TensorFlow().explain_refusal(RunSpec(**case), TensorFlow.Options()) is None


@pytest.mark.parametrize(
    ("options", "change", "word"),
    [
        ({"one_process_per_node": True}, {}, None),
        ({"one_process_per_node": True}, {"topology": "1n1d"}, "several devices"),
        ({"one_process_per_node": True}, {"topology": "2n1d"}, "several devices"),
        ({"one_process_per_node": True}, {"strategy": "independent"}, "choose all_reduce"),
        ({"one_process_per_node": True}, {"strategy": "parameter_server_async"}, "its own server"),
        ({"one_process_per_node": True}, {"compiler": "xla"}, "first CPU device"),
        ({"one_process_per_node": True}, {"compiler": "xla", "device": "cuda"}, None),
        ({"one_process_per_node": True}, {"topology": "2n2d"}, "one CPU device"),
        ({"one_process_per_node": True}, {"topology": "2n2d", "device": "cuda"}, None),
        ({"pack_mb": 8}, {}, None),
        ({"pack_mb": 8}, {"topology": "2n1d"}, None),
        ({"pack_mb": 8}, {"topology": "1n1d"}, "leave it at 0"),
        ({"pack_mb": 8}, {"strategy": "independent"}, "leave it at 0"),
        ({"pack_mb": 8}, {"strategy": "parameter_server_async"}, "leave it at 0"),
        ({"pack_mb": 8, "one_process_per_node": True}, {}, "packs none"),
        ({"pack_mb": 8, "one_process_per_node": True}, {"device": "cuda"}, None),
        ({"nccl": False}, {}, "no NCCL on cpu"),
        ({"nccl": False}, {"device": "cuda"}, None),
        ({"nccl": False}, {"topology": "1n1d", "device": "cuda"}, "nccl changes nothing"),
        ({"nccl": False}, {"strategy": "independent", "device": "cuda"}, "nccl changes nothing"),
        ({"loader_workers": 8}, {"topology": "1n1d"}, None),
    ],
)
def test_an_option_that_means_nothing_to_the_case_is_refused(options, change, word):
    case = RunSpec(**CASE | {"topology": "1n2d"} | change)
    reason = TensorFlow().explain_refusal(case, TensorFlow.Options(**options))
    assert reason is None if word is None else word in reason
    # Options that nobody changed are nothing to refuse.
    assert TensorFlow().explain_refusal(case, TensorFlow.Options()) is None


def test_the_plan_refuses_before_there_is_an_environment():
    options = {"one_process_per_node": True}
    spec = RunSpec(framework="tensorflow", model="resnet50", topology="2n2d", device="cpu", options=options)
    with pytest.raises(Unsupported, match="on several nodes leave one_process_per_node at false"):
        make_plan(spec, Registry())


def test_unsupported_values_are_not_capabilities_and_have_reasons():
    can = TensorFlow.capabilities
    assert not set(TensorFlow.unsupported) & (can.strategies | can.compilers | can.precisions | can.layouts)
    spec = RunSpec(framework="tensorflow", model="bert-base", topology="1n2d", strategy="parameter_server")
    with pytest.raises(Unsupported, match=r"no synchronous variant: .* choose parameter_server_async"):
        make_plan(spec, Registry())


def test_cpu_lock_pins_everything_and_excludes_cuda():
    lock = TensorFlow().environment("cpu", "all_reduce", "resnet50").lock
    lines = [line for line in lock.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[^\s;]+", line) for line in lines)
    pins = dict(line.split("==") for line in lines)
    assert pins["tensorflow-cpu"] == "2.21.0" and pins["keras"] == "3.15.1"
    assert not [name for name in pins if "nvidia" in name or "cuda" in name]


def test_gpus_need_the_cuda_build():
    environment = TensorFlow().environment("cuda", "all_reduce", "resnet50")
    assert environment.lock is None
    assert "tensorflow[and-cuda]==2.21.*" in environment.requirements


@pytest.mark.parametrize("options", [{"loader_workers": 0}, {"pack_mb": -1}, {"one_process_per_node": 1}])
def test_impossible_options(options):
    with pytest.raises(SpecError):
        TensorFlow.Options(**options)


def test_every_option_has_help_and_a_role():
    for field in attrs.fields(TensorFlow.Options):
        assert field.metadata["role"] in ("factor", "context")
        assert field.metadata["help"]


def cluster(nodes, devices, strategy="all_reduce", device="cpu", **options):
    chosen = attrs.asdict(TensorFlow.Options(**options))
    ports = tuple(str(4000 + port) for port in range(2 * devices + 4))
    names = tuple(f"cpu:{index}" for index in range(devices))
    places = tuple(Node(f"10.0.0.{node}", ports, names, f"eth{node}") for node in range(nodes))
    return Cluster(places, device, strategy, chosen)


def test_every_worker_gets_all_addresses_and_its_rank():
    actual = processes(cluster(2, 2))
    assert [p.role for p in actual] == [TRAINER] * 4
    message = [json.loads(p.variables["TF_CONFIG"]) for p in actual]
    workers = ["10.0.0.0:4000", "10.0.0.0:4001", "10.0.0.1:4000", "10.0.0.1:4001"]
    assert all(item["cluster"] == {"worker": workers} for item in message)
    assert [item["task"] for item in message] == [{"type": "worker", "index": i} for i in range(4)]
    assert [p.replicas for p in actual] == [(0,), (1,), (2,), (3,)]
    assert not any("NCCL_SOCKET_IFNAME" in p.variables for p in actual)


def test_one_process_may_own_a_node():
    actual = processes(cluster(2, 2, device="cuda", one_process_per_node=True))
    assert [(p.rank, p.node, p.devices, p.replicas) for p in actual] == [
        (0, 0, (0, 1), (0, 1)),
        (1, 1, (0, 1), (2, 3)),
    ]
    message = json.loads(actual[1].variables["TF_CONFIG"])
    assert message["cluster"]["worker"] == ["10.0.0.0:4000", "10.0.0.1:4000"]
    assert [p.variables["NCCL_SOCKET_IFNAME"] for p in actual] == ["=eth0", "=eth1"]


@pytest.mark.parametrize(
    "alone",
    [cluster(1, 1), cluster(1, 2, one_process_per_node=True), cluster(2, 2, strategy="independent")],
)
def test_independent_processes_need_no_variables(alone):
    assert all(p.variables == {} for p in processes(alone))


def test_servers_and_the_trainer_know_each_other():
    actual = processes(cluster(2, 2, strategy="parameter_server_async"))
    assert [(p.role, p.node, p.devices, p.replicas, p.rank) for p in actual] == [
        (SERVICE, 0, (), (), None),
        (SERVICE, 1, (), (), None),
        (SERVICE, 0, (0,), (), None),
        (SERVICE, 0, (1,), (), None),
        (SERVICE, 1, (0,), (), None),
        (SERVICE, 1, (1,), (), None),
        (TRAINER, 0, (), (0, 1, 2, 3), 0),
    ]
    assert {p.target for p in actual[:-1]} == {"dlperf_tensorflow.worker.service:serve"}
    message = [json.loads(p.variables["TF_CONFIG"]) for p in actual]
    jobs = {
        "chief": ["10.0.0.0:4003"],
        "ps": ["10.0.0.0:4002", "10.0.0.1:4002"],
        "worker": ["10.0.0.0:4000", "10.0.0.0:4001", "10.0.0.1:4000", "10.0.0.1:4001"],
    }
    assert all(item["cluster"] == jobs for item in message)
    assert [(item["task"]["type"], item["task"]["index"]) for item in message] == [
        *(("ps", i) for i in range(2)),
        *(("worker", i) for i in range(4)),
        ("chief", 0),
    ]


def test_one_replica_needs_no_server():
    actual = processes(cluster(1, 1, strategy="parameter_server_async"))
    assert [(p.role, p.devices, p.variables) for p in actual] == [(TRAINER, (0,), {})]
