"""The controller half: what it offers and refuses, its processes, its lock. None of it needs JAX."""

import pytest
from dlperf_jax.framework import Jax
from dlperf_jax.processes import processes
from packaging.requirements import Requirement

from dlperf_sdk import RunSpec
from dlperf_sdk.errors import SpecError
from dlperf_sdk.worker.processes import Cluster, Node

CASE = {"framework": "jax", "model": "resnet50", "device": "cpu"}


@pytest.mark.parametrize(
    ("change", "option", "word"),
    [
        ({}, False, None),
        ({"topology": "2n2d"}, True, None),
        ({"topology": "2n1d"}, True, "changes nothing"),
        ({"topology": "1n2d", "strategy": "independent"}, True, "its own process"),
        ({"topology": "1n2d", "strategy": "independent"}, False, None),
    ],
)
def test_refuses(change, option, word):
    reason = Jax().explain_refusal(RunSpec(**CASE | change), Jax.Options(one_process_per_node=option))
    assert reason is None if word is None else word in reason


def test_unsupported_values_have_reasons():
    can = Jax.capabilities
    asked_for = {"nchw", "parameter_server", "distributed_replicated", "parameter_server_async", "horovod"}
    asked_for |= {"inductor", "xla", "cinn", "graph", "nccl"}
    assert asked_for == set(Jax.unsupported)
    assert not asked_for & (can.precisions | can.layouts | can.strategies | can.compilers)
    assert all(reason.endswith(".") for reason in Jax.unsupported.values())


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.14"])
def test_the_lock_has_one_version_of_each_package_within_the_requirements(python):
    environment = Jax().environment("cpu", "all_reduce", "resnet50")
    lines = environment.lock.read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    pins = [pin for pin in pins if pin.marker is None or pin.marker.evaluate({"python_version": python})]
    versions = {pin.name: str(pin.specifier).removeprefix("==") for pin in pins}
    assert len(versions) == len(pins)
    assert versions["jax"] == versions["jaxlib"]
    for requirement in map(Requirement, environment.requirements):
        assert requirement.specifier.contains(versions[requirement.name])


def test_a_gpu_has_another_build():
    requirements = Jax().environment("cuda", "all_reduce", "resnet50").requirements
    assert any(requirement.startswith("jax[cuda12]") for requirement in requirements)


def test_impossible_options():
    with pytest.raises(SpecError):
        Jax.Options(loader_workers=0)


def cluster(hosts, devices, strategy="all_reduce", device="cpu", one_process_per_node=False, interface=""):
    nodes = [
        Node(host, ("4000", "4001"), tuple(f"{device}:{index}" for index in range(devices)), interface)
        for host in hosts
    ]
    return Cluster(tuple(nodes), device, strategy, {"one_process_per_node": one_process_per_node})


def test_processes_of_two_nodes():
    trainers = processes(cluster(["10.0.0.1", "10.0.0.2"], 2))
    assert [trainer.variables["JAX_PROCESS_ID"] for trainer in trainers] == ["0", "1", "2", "3"]
    assert {trainer.variables["JAX_NUM_PROCESSES"] for trainer in trainers} == {"4"}
    assert {trainer.variables["JAX_COORDINATOR_ADDRESS"] for trainer in trainers} == {"10.0.0.1:4000"}


def test_one_process_owns_a_nodes_devices():
    trainers = processes(cluster(["10.0.0.1", "10.0.0.2"], 2, one_process_per_node=True))
    assert [(trainer.devices, trainer.replicas) for trainer in trainers] == [
        ((0, 1), (0, 1)),
        ((0, 1), (2, 3)),
    ]
    assert [trainer.variables["JAX_PROCESS_ID"] for trainer in trainers] == ["0", "1"]
    (alone,) = processes(cluster(["10.0.0.1"], 2, one_process_per_node=True))
    assert alone.variables == {} and alone.replicas == (0, 1)


def test_nccl_gets_the_interface_between_nodes():
    first, second = processes(cluster(["a", "b"], 1, device="cuda", interface="eth1"))
    assert first.variables["NCCL_SOCKET_IFNAME"] == second.variables["NCCL_SOCKET_IFNAME"] == "=eth1"
    assert "NCCL_SOCKET_IFNAME" not in processes(cluster(["a", "b"], 1, interface="eth1"))[0].variables


@pytest.mark.parametrize("alone", [cluster(["h"], 1), cluster(["h", "i"], 2, "independent")])
def test_replicas_that_do_not_synchronize_need_no_variables(alone):
    assert all(trainer.variables == {} for trainer in processes(alone))
