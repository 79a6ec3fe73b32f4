"""The controller half: what it offers and refuses, its processes, its lock. None of it needs MXNet."""

import re

import pytest
from dlperf_mxnet.framework import MXNet
from dlperf_mxnet.processes import CPU_DEVICES, SERVE, processes

from dlperf_sdk import RunSpec
from dlperf_sdk.errors import SpecError
from dlperf_sdk.worker.processes import SERVICE, TRAINER, Cluster, Node

CASE = {"framework": "mxnet", "model": "resnet50", "device": "cpu", "topology": "1n2d"}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({}, None),
        ({"topology": "2n2d"}, "parameter_server"),
        ({"topology": "2n2d", "strategy": "parameter_server"}, None),
        ({"topology": "2n2d", "strategy": "horovod"}, None),
        ({"topology": "2n2d", "strategy": "independent"}, None),
        ({"precision": "amp-fp16"}, "fp16"),
        ({"precision": "amp-fp16", "device": "cuda"}, None),
        ({"precision": "fp16"}, "fp16"),
        ({"precision": "fp16", "device": "cuda"}, None),
        ({"precision": "fp16", "device": "cuda", "accumulation": 2}, None),
        ({"precision": "amp-bf16"}, None),
        ({"precision": "amp-bf16", "model": "bert-base"}, "batch_dot"),
        ({"precision": "amp-bf16", "accumulation": 2}, "overwrite"),
        ({"accumulation": 2}, None),
        ({"precision": "amp-bf16", "device": "cuda"}, "oneDNN"),
        ({"layout": "nhwc"}, "NHWC"),
        ({"layout": "nhwc", "device": "cuda"}, None),
    ],
)
def test_refuses(change, word):
    reason = MXNet().explain_refusal(RunSpec(**CASE | change), MXNet.Options())
    assert reason is None if word is None else word in reason


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({}, "no NCCL on cpu"),
        ({"device": "cuda"}, None),
        ({"device": "cuda", "topology": "1n1d"}, "nccl changes nothing"),
        ({"device": "cuda", "strategy": "parameter_server"}, "nccl changes nothing"),
        ({"device": "cuda", "strategy": "horovod"}, "the library that it was built with"),
    ],
)
def test_nccl_is_switched_off_where_it_would_be_used(change, word):
    reason = MXNet().explain_refusal(RunSpec(**CASE | change), MXNet.Options(nccl=False))
    assert reason is None if word is None else word in reason


@pytest.mark.parametrize(
    "name", ["tf32", "distributed_replicated", "parameter_server_async", "inductor", "xla", "cinn"]
)
def test_unsupported_values_have_reasons(name):
    can = MXNet.capabilities
    assert name not in can.precisions | can.strategies | can.compilers
    assert MXNet.unsupported[name].endswith(".")


@pytest.mark.parametrize("strategy", ["all_reduce", "horovod"])
def test_cpu_lock_pins_everything_and_excludes_cuda(strategy):
    environment = MXNet().environment("cpu", strategy, "resnet50")
    lines = environment.lock.read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert pins["mxnet"] == "1.9.1" and pins["numpy"].startswith("1.23.")
    assert all(re.fullmatch(r"[0-9.]+", version) for version in pins.values())
    assert {re.split(r"[<>=]", text)[0] for text in environment.requirements} <= set(pins)
    assert MXNet().environment("cuda", strategy, "resnet50").requirements[0] == "mxnet-cu112==1.9.1"


def test_horovod_is_built_for_its_strategy_only():
    [build] = MXNet().environment("cpu", "horovod", "resnet50").source_builds
    assert build.variables["HOROVOD_WITH_MXNET"] == "1"
    assert MXNet().environment("cpu", "parameter_server", "resnet50").source_builds == ()


def test_impossible_options():
    with pytest.raises(SpecError):
        MXNet.Options(loader_workers=0)


def cluster(nodes, devices, strategy, device="cpu"):
    return Cluster(
        tuple(
            Node(
                f"10.0.0.{n}",
                ("4000", "4001", "4002"),
                tuple(f"{device}:{d}" for d in range(devices)),
                f"eth{n}",
            )
            for n in range(nodes)
        ),
        device,
        strategy,
    )


def test_one_trainer_owns_a_node():
    (trainer,) = processes(cluster(1, 3, "all_reduce"))
    assert (trainer.role, trainer.devices, trainer.replicas) == (TRAINER, (0, 1, 2), (0, 1, 2))
    assert trainer.variables == {CPU_DEVICES: "3"}
    assert processes(cluster(1, 3, "all_reduce", "cuda"))[0].variables == {}


def test_independent_replicas_have_a_process_each():
    actual = processes(cluster(2, 2, "independent"))
    assert [process.replicas for process in actual] == [(0,), (1,), (2,), (3,)]


def test_the_roles_of_a_parameter_server():
    actual = processes(cluster(2, 2, "parameter_server"))
    assert [(p.role, p.node, p.variables["DMLC_ROLE"]) for p in actual] == [
        (SERVICE, 0, "scheduler"),
        (SERVICE, 0, "server"),
        (SERVICE, 1, "server"),
        (TRAINER, 0, "worker"),
        (TRAINER, 1, "worker"),
    ]
    assert [p.target for p in actual] == [SERVE] * 3 + [None] * 2
    assert [p.replicas for p in actual[3:]] == [(0, 1), (2, 3)] and [p.rank for p in actual[3:]] == [0, 1]
    for process in actual:
        variables = process.variables
        assert (variables["DMLC_PS_ROOT_URI"], variables["DMLC_PS_ROOT_PORT"]) == ("10.0.0.0", "4000")
        assert (variables["DMLC_NUM_WORKER"], variables["DMLC_NUM_SERVER"]) == ("2", "2")
        assert variables["DMLC_NODE_HOST"] == f"10.0.0.{process.node}"
        assert variables.get(CPU_DEVICES) == ("2" if process.role == TRAINER else None)


def test_horovod_has_a_trainer_per_device():
    service, *trainers = processes(cluster(1, 2, "horovod"))
    assert service.role == SERVICE
    assert [trainer.replicas for trainer in trainers] == [(0,), (1,)]
    assert all(CPU_DEVICES not in trainer.variables for trainer in trainers)


def test_a_lone_replica_needs_no_server():
    (trainer,) = processes(cluster(1, 1, "parameter_server"))
    assert trainer.variables == {}
