"""The controller half: what it offers and refuses, its processes, its lock. None of it needs OneFlow."""

import re

import pytest
from dlperf_oneflow.framework import OneFlow
from dlperf_oneflow.processes import processes

from dlperf_sdk import RunSpec
from dlperf_sdk.errors import SpecError
from dlperf_sdk.worker.processes import Cluster, Node

CASE = {"framework": "oneflow", "model": "resnet50", "device": "cpu"}


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({}, None),
        ({"compiler": "graph"}, None),
        ({"compiler": "graph", "topology": "2n1d", "model": "bert-base"}, None),
        ({"accumulation": 2}, None),
        ({"accumulation": 2, "compiler": "graph"}, "wrongly"),
        ({"precision": "amp-fp16"}, "GPUs only"),
        ({"precision": "amp-fp16", "device": "cuda"}, None),
        ({"precision": "amp-fp16", "device": "cuda", "accumulation": 2}, None),
        ({"precision": "amp-fp16", "device": "cuda", "compiler": "graph"}, "compiler none"),
    ],
)
def test_refuses(change, word):
    reason = OneFlow().explain_refusal(RunSpec(**CASE | change), OneFlow.Options())
    assert reason is None if word is None else word in reason


def test_unsupported_values_have_reasons():
    can = OneFlow.capabilities
    asked_for = {
        "amp-bf16",
        "fp16",
        "tf32",
        "nhwc",
        "parameter_server",
        "distributed_replicated",
        "parameter_server_async",
        "horovod",
    }
    asked_for |= {"inductor", "xla", "cinn", "trace", "communication", "nccl"}
    assert asked_for == set(OneFlow.unsupported)
    assert not asked_for & (can.precisions | can.layouts | can.strategies | can.compilers)
    assert all(why.endswith(".") for why in OneFlow.unsupported.values())


def test_unsupported_layout_message_suggests_the_supported_one():
    """nchw, which ResNet-50 takes as well, would be refused next for BERT."""
    assert OneFlow.unsupported["nhwc"].endswith("Leave the layout at auto.")


def test_lock_pins_everything_and_requirements_name_nvidia_libraries():
    environment = OneFlow().environment("cpu", "all_reduce", "resnet50")
    lines = environment.lock.read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert pins["oneflow"] == "0.9.0" and pins["nvidia-cudnn-cu11"].startswith("8.")
    assert all(re.fullmatch(r"[0-9.]+", version) for version in pins.values())
    required = {re.split(r"[<>=]", text)[0] for text in environment.requirements}
    # A CPU's environment may hold CUDA's libraries only where a requirement names them.
    assert {name for name in pins if name.startswith("nvidia")} <= required


def test_impossible_options():
    with pytest.raises(SpecError):
        OneFlow.Options(loader_workers=0)


def cluster(hosts, devices, strategy="all_reduce", device="cpu"):
    nodes = [
        Node(host, ("4000", "4001"), tuple(f"{device}-{n}-{d}" for d in range(devices)))
        for n, host in enumerate(hosts)
    ]
    return Cluster(tuple(nodes), device, strategy)


def test_processes_of_two_nodes():
    actual = processes(cluster(["10.0.0.1", "10.0.0.2"], 2))
    assert [p.variables["RANK"] for p in actual] == ["0", "1", "2", "3"]
    assert [p.variables["LOCAL_RANK"] for p in actual] == ["0", "1", "0", "1"]
    assert {p.variables["WORLD_SIZE"] for p in actual} == {"4"}
    assert {(p.variables["MASTER_ADDR"], p.variables["MASTER_PORT"]) for p in actual} == {
        ("10.0.0.1", "4000")
    }


def test_nodes_of_one_machine_are_one_node_to_oneflow():
    actual = processes(cluster(["127.0.0.1", "127.0.0.1"], 1))
    assert [p.variables["LOCAL_RANK"] for p in actual] == ["0", "1"]


def test_every_rank_sees_its_nodes_gpus():
    actual = processes(cluster(["10.0.0.1", "10.0.0.2"], 2, device="cuda"))
    assert [p.variables["CUDA_VISIBLE_DEVICES"] for p in actual] == ["cuda-0-0,cuda-0-1"] * 2 + [
        "cuda-1-0,cuda-1-1"
    ] * 2


@pytest.mark.parametrize("alone", [cluster(["h"], 1), cluster(["h", "i"], 2, "independent")])
def test_independent_replicas_need_no_variables(alone):
    assert all(p.variables == {} for p in processes(alone))
