"""The controller half: what it offers and refuses, its processes, its lock. None of it needs tensorpack."""

import re

import pytest
from dlperf_tensorpack.framework import Tensorpack
from dlperf_tensorpack.processes import processes

from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker.processes import Cluster, Node


def test_unsupported_values_have_reasons():
    can = Tensorpack.capabilities
    offered = can.precisions | can.layouts | can.strategies | can.compilers | can.data
    assert not set(Tensorpack.unsupported) & offered
    assert {"amp-fp16", "xla", "horovod", "images"} <= set(Tensorpack.unsupported)
    assert all(why.endswith(".") for why in Tensorpack.unsupported.values())


def test_lock_pins_everything():
    environment = Tensorpack().environment("cpu", "all_reduce", "resnet50")
    lines = environment.lock.read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert (pins["tensorpack"], pins["tensorflow"], pins["numpy"]) == ("0.11", "1.15.5", "1.18.5")
    assert all(re.fullmatch(r"[0-9][0-9.post]*", version) for version in pins.values())
    assert {re.split(r"[<>=]", text)[0] for text in environment.requirements} <= set(pins)


def reason(**fields):
    spec = RunSpec(framework="tensorpack", model="resnet50", **fields)
    return Tensorpack().explain_refusal(spec, Tensorpack.Options())


def test_nchw_is_refused_on_a_cpu_only():
    assert "GPUs only" in reason(layout="nchw", device="cpu")
    assert reason(layout="nchw", device="cuda") is None
    assert reason(layout="nhwc", device="cpu") is None


@pytest.mark.parametrize("strategy", ["all_reduce", "parameter_server"])
def test_gradients_stay_within_a_node(strategy):
    assert "Horovod" in reason(topology="2n1d", strategy=strategy, device="cpu")
    assert reason(topology="1n2d", strategy=strategy, device="cpu") is None
    assert reason(topology="2n1d", strategy="independent", device="cpu") is None


def test_a_process_owns_the_devices_of_its_node_unless_replicas_are_independent():
    node = Node("10.0.0.1", ("4000",), ("cpu:0", "cpu:1"))
    owned = {
        strategy: [(p.devices, p.replicas, p.variables) for p in processes(Cluster((node,), "cpu", strategy))]
        for strategy in ("all_reduce", "parameter_server", "independent")
    }
    assert owned["all_reduce"] == owned["parameter_server"] == [((0, 1), (0, 1), {})]
    assert owned["independent"] == [((0,), (0,), {}), ((1,), (1,), {})]
