"""The strategy `horovod`: its processes and their variables, and the wait for the rendezvous server."""

import socket
import sys
from types import ModuleType

import pytest

from dlperf_sdk.worker import horovod
from dlperf_sdk.worker.processes import Cluster, Node


def cluster(device="cpu", interface=""):
    """Two nodes of two devices."""
    nodes = [
        Node(host, tuple(f"40{n}{port}" for port in range(3)), ("0", "1"), interface)
        for n, host in enumerate(["10.0.0.1", "10.0.0.2"])
    ]
    return Cluster(tuple(nodes), device, "horovod")


def test_one_rendezvous_server_and_ranks_within_and_across_nodes():
    service, *trainers = horovod.plan_with_horovod(cluster())
    rendezvous = {"HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.1", "HOROVOD_GLOO_RENDEZVOUS_PORT": "4002"}
    assert (service.role, service.node, service.target) == ("service", 0, horovod.RENDEZVOUS)
    assert service.variables == rendezvous
    actual = [
        [one.variables[f"HOROVOD_{name}"] for name in ("RANK", "HOSTNAME", "LOCAL_RANK", "CROSS_RANK")]
        for one in trainers
    ]
    assert actual == [
        ["0", "node-0", "0", "0"],
        ["1", "node-0", "1", "0"],
        ["2", "node-1", "0", "1"],
        ["3", "node-1", "1", "1"],
    ]
    assert all(rendezvous.items() <= one.variables.items() for one in trainers)
    assert {one.variables["HOROVOD_SIZE"] for one in trainers} == {"4"}
    assert {one.variables["HOROVOD_GLOO_IFACE"] for one in trainers} == {"lo"}


def test_gloo_and_nccl_use_the_nodes_interface():
    trainers = horovod.plan_with_horovod(cluster("cuda", "eth7"))[1:]
    assert {one.variables["HOROVOD_GLOO_IFACE"] for one in trainers} == {"eth7"}
    assert {one.variables["NCCL_SOCKET_IFNAME"] for one in trainers} == {"=eth7"}


def test_joining_waits_for_the_server_and_ends_at_the_deadline(monkeypatch):
    library, calls = ModuleType("toy_horovod"), []
    library.init = lambda: calls.append(library)
    monkeypatch.setitem(sys.modules, "toy_horovod", library)
    monkeypatch.setenv("HOROVOD_GLOO_TIMEOUT_SECONDS", "")
    monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HOROVOD_GLOO_RENDEZVOUS_PORT", str(server.getsockname()[1]))
        assert horovod.join("toy_horovod", 30) is library
    assert calls == [library]
    with pytest.raises(OSError, match="refused"):
        horovod.join("toy_horovod", 0.2)
    assert calls == [library]
