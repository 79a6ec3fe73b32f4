"""The controller half: what it offers and refuses, its processes, its lock. None of it needs MegEngine."""

import re

import pytest
from dlperf_megengine.framework import MegEngine
from dlperf_megengine.processes import processes

from dlperf_sdk.errors import SpecError
from dlperf_sdk.worker.processes import Cluster, Node


def test_unsupported_values_have_reasons():
    can = MegEngine.capabilities
    asked_for = {
        "amp-fp16",
        "amp-bf16",
        "fp16",
        "tf32",
        "nhwc",
        "parameter_server",
        "distributed_replicated",
        "parameter_server_async",
        "horovod",
    }
    asked_for |= {"graph", "inductor", "xla", "cinn", "communication", "nccl"}
    assert asked_for == set(MegEngine.unsupported)
    assert not asked_for & (can.precisions | can.layouts | can.strategies | can.compilers)
    assert all(why.endswith(".") for why in MegEngine.unsupported.values())


def test_lock_pins_everything():
    environment = MegEngine().environment("cpu", "all_reduce", "resnet50")
    lines = environment.lock.read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert pins["megengine"] == "1.13.0" and pins["numpy"].startswith("1.23.")
    assert all(re.fullmatch(r"[0-9][0-9.post]*", version) for version in pins.values())
    assert {re.split(r"[<>=]", text)[0] for text in environment.requirements} <= set(pins)


def test_impossible_options():
    with pytest.raises(SpecError):
        MegEngine.Options(loader_workers=0)


def cluster(hosts, devices, strategy="all_reduce", device="cpu", interface=""):
    nodes = [
        Node(host, (f"40{n}0", f"40{n}1"), tuple(f"{device}-{n}-{d}" for d in range(devices)), interface)
        for n, host in enumerate(hosts)
    ]
    return Cluster(tuple(nodes), device, strategy)


def test_trainers_on_cpus_are_a_ring():
    actual = processes(cluster(["10.0.0.1", "10.0.0.2"], 2))
    addresses = [p.variables["RING_ADDRESS"] for p in actual]
    assert addresses == ["10.0.0.1:4000", "10.0.0.1:4001", "10.0.0.2:4010", "10.0.0.2:4011"]
    assert [p.variables["RING_NEXT"] for p in actual] == [*addresses[1:], addresses[0]]


def test_trainers_on_gpus_meet_at_the_server_of_rank_0():
    actual = processes(cluster(["10.0.0.1", "10.0.0.2"], 2, device="cuda", interface="eth1"))
    assert [p.variables for p in actual] == [
        {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "4000", "NCCL_SOCKET_IFNAME": "=eth1"}
    ] * 4


@pytest.mark.parametrize("alone", [cluster(["h"], 1), cluster(["h", "i"], 2, "independent")])
def test_independent_replicas_need_no_variables(alone):
    assert all(p.variables == {} for p in processes(alone))
