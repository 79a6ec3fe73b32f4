"""The table of all addresses, and the connections that a node tries."""

from __future__ import annotations

import random

import pytest

from dlperf_sdk.worker import network
from dlperf_sdk.worker.agent.address_table import compress, expand
from dlperf_sdk.worker.agent.preflight import select_doorbells


def nodes_of(count, chance=None):
    """Return nodes with eight GPUs each and ports as agents choose them."""
    chance = chance or random.Random(7)
    created = []
    for node in range(count):
        first = chance.randrange(20000, 31980)
        created.append(
            {
                "host": f"10.0.{node // 250}.{node % 250}",
                "ports": [str(port) for port in range(first, first + 20)],
                "interface": "ib0",
                "devices": [f"GPU-{chance.randbytes(16).hex()}" for _ in range(8)],
            }
        )
    return created


def test_expanded_table_equals_its_source():
    nodes = nodes_of(3)
    nodes[1]["ports"] = ["31999", "20000", "20007"]  # a node without a free block of them
    without_devices = [{key: node[key] for key in ("host", "ports", "interface")} for node in nodes]
    assert expand(compress(nodes)) == {str(number): node for number, node in enumerate(without_devices)}


def test_a_table_takes_a_few_bytes_per_node():
    assert len(compress(nodes_of(1000))) < 10_000


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 100, 1000])
def test_each_node_tries_others_and_is_tried(count):
    """All of them up to 64 nodes; of more, few, and every node is reached from every other over those that try."""
    doorbells = [[node, "10.0.0.1", 1] for node in range(count)]
    tried = {node: {doorbell[0] for doorbell in select_doorbells(node, doorbells)} for node in range(count)}
    if count <= 64:
        assert all(others == set(range(count)) for others in tried.values())
        return
    assert {len(others) for others in tried.values()} == {(count - 1).bit_length()}
    assert not any(node in others for node, others in tried.items())
    requested = [sum(node in others for others in tried.values()) for node in range(count)]
    assert set(requested) == {(count - 1).bit_length()}


def test_ports_follow_each_other_where_they_can():
    ports = [int(port) for port in network.free_ports("127.0.0.1", 20)]
    assert ports == list(range(ports[0], ports[0] + 20))
