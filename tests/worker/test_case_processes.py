"""The processes of a case: the plugin's, and one sender per replica where the data source has senders."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from dlperf_sdk.worker.agent import launch_commands
from dlperf_sdk.worker.case_processes import list_case_processes
from dlperf_sdk.worker.processes import TRAINER, Cluster, Node, Process, names_of, port_count
from dlperf_sdk.worker.zmq_messages import address_of

SENDER = "dlperf_sdk.worker.zmq_sender:send"
CLUSTER = Cluster(
    (Node("a", ("1",), ("cpu:0", "cpu:1")), Node("b", ("1",), ("cpu:0",))), "cpu", "independent"
)


@pytest.mark.parametrize("layout", ["one_per_device", "one_per_node"])
def test_each_replica_has_a_sender_on_the_node_of_its_trainer(layout):
    reference = f"dlperf_sdk.worker.processes:{layout}"
    alone = list_case_processes(reference, None, CLUSTER)
    listed = list_case_processes(reference, SENDER, CLUSTER)
    assert listed[: len(alone)] == alone
    senders = listed[len(alone) :]
    assert [(sender.node, sender.feeds, sender.target) for sender in senders] == [
        (0, 0, SENDER),
        (0, 1, SENDER),
        (1, 2, SENDER),
    ]
    assert names_of(listed)[-3:] == ["service-0", "service-1", "service-2"]


def take_ports(cluster):
    """Return one process, whose variables are the ports that a plugin gets."""
    return [Process(TRAINER, 0, {"PORTS": ",".join(cluster.nodes[0].ports)}, (0,), (0,), 0)]


def test_the_plugin_does_not_get_the_ports_of_the_senders():
    devices = tuple(f"cpu:{device}" for device in range(2))
    ports = tuple(map(str, range(port_count(2))))
    cluster = Cluster((Node("a", ports, devices),), "cpu", "independent")
    listed = list_case_processes(f"{__name__}:take_ports", SENDER, cluster)
    assert listed[0].variables["PORTS"] == "0,1,2,3,4,5,6,7"
    request = SimpleNamespace(data={"source": "zmq-tcp"}, devices_per_node=2)
    addresses = [address_of(request, cluster, 0, replica) for replica in (0, 1)]
    assert addresses == ["tcp://127.0.0.1:8", "tcp://127.0.0.1:9"]


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("one_per_device", [(0, 1, 2), (4, 5, 6), (3,), (7,)]),
        ("one_per_node", [(0, 1, 2, 3, 4, 5), (6,), (7,)]),
    ],
)
def test_a_sender_has_a_core_of_its_trainers_share(monkeypatch, layout, expected):
    monkeypatch.setattr(launch_commands, "cpus_by_numa", lambda: {0: (0, 1, 2, 3), 1: (4, 5, 6, 7)})
    monkeypatch.setattr("dlperf_sdk.worker.agent.affinity._core", lambda root, cpu: cpu)
    listed = list_case_processes(f"dlperf_sdk.worker.processes:{layout}", SENDER, CLUSTER)
    here = [process for process in listed if process.node == 0]
    assert launch_commands._processors(here, launch_commands.Place(0, 0, 1)) == expected
