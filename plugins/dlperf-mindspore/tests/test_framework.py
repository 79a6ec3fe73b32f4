"""The controller half: what it offers and refuses, its processes, its lock. None of it needs MindSpore."""

import re

import pytest
from dlperf_mindspore.framework import MindSpore
from dlperf_mindspore.processes import processes

from dlperf_sdk.errors import SpecError
from dlperf_sdk.worker.processes import Cluster, Node


def test_unsupported_values_have_reasons():
    can = MindSpore.capabilities
    refused = set(MindSpore.unsupported)
    assert {"amp-fp16", "amp-bf16", "fp16", "tf32", "nhwc"} <= refused
    assert {"parameter_server", "distributed_replicated", "parameter_server_async", "horovod"} <= refused
    assert {"inductor", "xla", "cinn"} <= refused
    assert not refused & (can.devices | can.precisions | can.layouts | can.strategies | can.compilers)
    assert all(why.endswith(".") for why in MindSpore.unsupported.values())


def test_lock_pins_everything():
    environment = MindSpore().environment("cpu", "all_reduce", "resnet50")
    lines = environment.lock.read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert pins["mindspore"] == "2.10.0" and pins["numpy"].startswith("1.26.")
    assert all(re.fullmatch(r"[0-9][0-9.post]*", version) for version in pins.values())
    assert {re.split(r"[<>=]", text)[0] for text in environment.requirements} <= set(pins)


def test_impossible_options():
    with pytest.raises(SpecError):
        MindSpore.Options(loader_workers=0)


def cluster(hosts, devices, strategy="all_reduce"):
    nodes = [
        Node(host, (f"40{n}0", f"40{n}1"), tuple(f"cpu-{n}-{d}" for d in range(devices)))
        for n, host in enumerate(hosts)
    ]
    return Cluster(tuple(nodes), "cpu", strategy)


def test_trainers_meet_at_the_scheduler_of_node_0():
    scheduler, *trainers = processes(cluster(["10.0.0.1", "10.0.0.2"], 2))
    assert (scheduler.role, scheduler.node, scheduler.variables["MS_ROLE"]) == ("service", 0, "MS_SCHED")
    assert {
        (process.variables["MS_SCHED_HOST"], process.variables["MS_SCHED_PORT"])
        for process in (scheduler, *trainers)
    } == {("10.0.0.1", "4000")}
    assert [process.variables["MS_NODE_ID"] for process in trainers] == ["0", "1", "2", "3"]
    assert {process.variables["MS_WORKER_NUM"] for process in (scheduler, *trainers)} == {"4"}


@pytest.mark.parametrize("alone", [cluster(["h"], 1), cluster(["h", "i"], 2, "independent")])
def test_independent_replicas_need_no_variables(alone):
    assert all(process.variables == {} for process in processes(alone))
