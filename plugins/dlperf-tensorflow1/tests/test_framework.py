"""The controller half: what it offers and refuses, its processes, its lock. None of it needs TensorFlow."""

import json
import re

import pytest
from dlperf_tensorflow1.framework import TensorFlow1
from dlperf_tensorflow1.processes import SERVE, processes

from dlperf_sdk.errors import SpecError
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker.processes import Cluster, Node


def test_unsupported_values_have_reasons():
    can = TensorFlow1.capabilities
    assert not set(TensorFlow1.unsupported) & (can.precisions | can.layouts | can.strategies | can.compilers)
    assert {"amp-bf16", "cinn", "parameter_server_async"} <= set(TensorFlow1.unsupported)
    assert all(why.endswith(".") for why in TensorFlow1.unsupported.values())


@pytest.mark.parametrize("strategy", ["all_reduce", "horovod"])
def test_lock_pins_everything(strategy):
    environment = TensorFlow1().environment("cpu", strategy, "resnet50")
    lines = environment.lock.read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert (pins["tensorflow"], pins["numpy"], pins["protobuf"]) == ("1.15.5", "1.18.5", "3.20.3")
    assert all(re.fullmatch(r"[0-9][0-9.post]*", version) for version in pins.values())
    assert {re.split(r"[<>=]", text)[0] for text in environment.requirements} <= set(pins)


def test_nchw_mixed_precision_and_xla_for_resnet50_are_refused_on_a_cpu_only():
    def reason(**fields):
        spec = RunSpec(framework="tensorflow1", model="resnet50", **fields)
        return TensorFlow1().explain_refusal(spec, TensorFlow1.Options())

    assert "GPUs only" in reason(layout="nchw", device="cpu")
    assert reason(layout="nchw", device="cuda") is None
    assert reason(layout="nhwc", device="cpu") is None
    assert "too long to compile" in reason(compiler="xla", device="cpu")
    assert reason(compiler="xla", device="cuda") is None
    assert "GPUs only" in reason(precision="amp-fp16", device="cpu")
    assert reason(precision="amp-fp16", device="cuda") is None


def test_impossible_options():
    with pytest.raises(SpecError):
        TensorFlow1.Options(loader_workers=0)


def cluster(hosts, devices, strategy="all_reduce"):
    nodes = [
        Node(host, (f"40{n}0", f"40{n}1", f"40{n}2"), tuple(f"cpu:{d}" for d in range(devices)))
        for n, host in enumerate(hosts)
    ]
    return Cluster(tuple(nodes), "cpu", strategy)


WORKERS = ["10.0.0.1:4000", "10.0.0.1:4001", "10.0.0.2:4010", "10.0.0.2:4011"]


def test_trainers_know_all_trainers():
    actual = processes(cluster(["10.0.0.1", "10.0.0.2"], 2))
    described = [json.loads(process.variables["TF_CONFIG"]) for process in actual]
    assert all(one["cluster"] == {"worker": WORKERS} for one in described)
    assert [one["task"] for one in described] == [{"type": "worker", "index": i} for i in range(4)]


@pytest.mark.parametrize("strategy", ["parameter_server", "distributed_replicated"])
def test_each_node_has_a_parameter_server(strategy):
    actual = processes(cluster(["10.0.0.1", "10.0.0.2"], 2, strategy))
    assert [(one.role, one.node, one.target) for one in actual[:2]] == [
        ("service", 0, SERVE),
        ("service", 1, SERVE),
    ]
    assert [one.rank for one in actual[2:]] == [0, 1, 2, 3]
    described = [json.loads(process.variables["TF_CONFIG"]) for process in actual]
    jobs = {"ps": ["10.0.0.1:4002", "10.0.0.2:4012"], "worker": WORKERS}
    assert all(one["cluster"] == jobs for one in described)
    assert [one["task"]["type"] for one in described] == ["ps"] * 2 + ["worker"] * 4


def test_horovod_is_built_for_its_strategy_only():
    [build] = TensorFlow1().environment("cpu", "horovod", "resnet50").source_builds
    assert build.variables["HOROVOD_WITH_TENSORFLOW"] == "1"
    assert TensorFlow1().environment("cpu", "all_reduce", "resnet50").source_builds == ()


@pytest.mark.parametrize(
    "alone", [cluster(["h"], 1, "parameter_server"), cluster(["h", "i"], 2, "independent")]
)
def test_independent_replicas_need_no_variables(alone):
    assert all(process.variables == {} for process in processes(alone))
