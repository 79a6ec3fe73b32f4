"""Nodes with placeholders, and the addresses that a node asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlperf_sdk import RunSpec
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.worker.agent.launch_commands import Place, needs_other_nodes, orders_for
from dlperf_sdk.worker.processes import (
    Cluster,
    Node,
    Process,
    nodes_from,
    one_per_device,
    one_per_node,
    unknown_nodes,
)
from dlperf_sdk.worker.request import Request

FACTS = {"host": "10.0.0.1", "ports": ["1", "2"], "devices": ["GPU-1"], "interface": "ib0"}


def ring(cluster: Cluster) -> list[Process]:
    """A trainer per device that knows the next node's address."""
    hosts = [node.host for node in cluster.nodes]
    return [
        trainer._replace(variables={"FIRST": hosts[0], "NEXT": hosts[(trainer.node + 1) % len(hosts)]})
        for trainer in one_per_device(cluster)
    ]


def remote_devices(cluster: Cluster) -> list[Process]:
    """A trainer per device that knows the devices of the last node."""
    devices = ",".join(cluster.nodes[-1].devices)
    return [trainer._replace(variables={"DEVICES": devices}) for trainer in one_per_device(cluster)]


def broken(cluster: Cluster) -> list[Process]:
    raise RuntimeError("no layout")


def request(function: str, nodes: int = 4) -> Request:
    spec = RunSpec(framework="numpy", model="linear", topology=f"{nodes}n1d")
    plain = make_plan(spec, Registry()).request("case", ("python",), {}, {"source": "synthetic"})
    return plain._replace(processes=f"{__name__}:{function}")


def test_what_is_not_known_is_a_placeholder():
    first, second = nodes_from(2, 1, {"1": {"host": "10.0.0.1", "devices": ["GPU-1"]}})
    assert first == Node(
        "<host of node 0>",
        tuple(f"<port {port} of node 0>" for port in range(7)),
        ("<device 0 of node 0>",),
        "<interface of node 0>",
    )
    assert (second.host, second.devices, second.interface) == (
        "10.0.0.1",
        ("GPU-1",),
        "<interface of node 1>",
    )


@pytest.mark.parametrize("field", ["host", "ports", "devices", "interface"])
def test_each_placeholder_names_its_node(field):
    value = getattr(nodes_from(13, 2, {})[12], field)
    text = f"tcp://{value[-1] if isinstance(value, tuple) else value}/x"
    assert unknown_nodes([Process("trainer", 0, {"A": "1", "B": text})]) == {12}


def test_a_node_needs_the_others_if_a_variable_of_its_processes_contains_one():
    assert not needs_other_nodes(request("one_per_device"), 1, FACTS)
    # The next node of the last one is node 0, which every node knows.
    assert [needs_other_nodes(request("ring"), node, FACTS) for node in range(4)] == [True, True, True, False]
    assert not needs_other_nodes(request("broken"), 1, FACTS)


def test_a_device_that_a_node_cannot_know_is_refused(tmp_path: Path):
    place = Place(1, 0, 1)
    with pytest.raises(ValueError, match="a device of node 3"):
        orders_for(request("remote_devices"), {"1": FACTS}, place, str(tmp_path))
    known = {"1": FACTS, "3": {**FACTS, "devices": ["GPU-3"]}}
    processes, _ = orders_for(request("remote_devices"), known, place, str(tmp_path))
    assert [process.variables for process in processes] == [{"DEVICES": "GPU-3"}]


def test_replicas_of_many_nodes_are_counted_through():
    """In time that is proportional to their number: every agent does it."""
    nodes = tuple(
        Node(f"n{node}", ("1",), tuple(f"cpu:{device}" for device in range(1 + node % 3)))
        for node in range(10_000)
    )
    cluster = Cluster(nodes, "cpu", "all_reduce")
    trainers = one_per_device(cluster)
    assert [trainer.rank for trainer in trainers] == list(range(cluster.world_size))
    assert {trainer.replicas for trainer in trainers[5:6]} == {(5,)}
    assert [(t.node, t.devices) for t in trainers[:4]] == [(0, (0,)), (1, (0,)), (1, (1,)), (2, (0,))]
    whole = one_per_node(cluster)
    assert [replica for trainer in whole for replica in trainer.replicas] == list(range(cluster.world_size))
    assert [trainer.devices for trainer in whole[:4]] == [(0,), (0, 1), (0, 1, 2), (0,)]
