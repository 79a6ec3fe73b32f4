"""The coordinator's view of the nodes: which one is silent, and that a slow one delays no other."""

from __future__ import annotations

import json
import math
import socket
import time
from contextlib import closing

import pytest

from dlperf_sdk.worker.agent import branches, link, roster
from dlperf_sdk.worker.agent.tree import Tree
from dlperf_sdk.worker.failures import Failed

BEAT = {"do": "beat"}
LONG = "x" * 2**24
"""More than a connection takes that nobody reads from."""


@pytest.fixture
def nodes():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield roster.Roster(Tree(2), 8, listener, "5" * 64, lambda: None)


@pytest.fixture
def agents(nodes):
    with closing(Agents(nodes)) as joined:
        yield joined


class Agents:
    """The other ends of the nodes' links, which read when they are asked to."""

    def __init__(self, nodes):
        self.sockets, self.readers = [], []
        nodes._branches.exchange.start()
        for node in range(2):
            theirs = socket.create_connection(nodes._listener.getsockname(), 60)
            nodes._branches.exchange.add(link.Link(nodes._listener.accept()[0]))
            self.sockets.append(theirs)
            self.readers.append(theirs.makefile("rb"))
            theirs.sendall(link.encode({"event": "ready", "node": node, "trainers": 1}))
        assert {nodes.next(60)["node"], nodes.next(60)["node"]} == {0, 1}

    def read(self, node):
        """The next message that is no sign of life."""
        while (message := json.loads(self.readers[node].readline())) == BEAT:
            pass
        return message

    def close(self):
        for file in (*self.readers, *self.sockets):
            file.close()


def test_unread_messages_are_not_silence(nodes):
    """The machine was busy: what the node said meanwhile lies in its connection."""
    now = time.monotonic()
    nodes._branches._last_messages[0] = now - 10 * branches.SILENCE
    nodes._branches.exchange.complete_until = now - 9.5 * branches.SILENCE
    assert nodes.next(0) is None
    nodes._branches.exchange.complete_until = now
    with pytest.raises(Failed, match="has not been heard"):
        nodes.next(60)


def test_a_node_is_silent_once_the_inbox_is_empty(nodes):
    now = time.monotonic()
    nodes._branches._last_messages[1] = now - 10 * branches.SILENCE
    nodes._branches.exchange.complete_until = now
    nodes._inbox.put({"event": "ready", "node": 0, "trainers": 1})
    assert nodes.next(60)["event"] == "ready"
    with pytest.raises(Failed) as error:
        nodes.next(60)
    assert error.value.failure["node"] == 1
    assert "has not been heard" in error.value.failure["message"]


def test_a_slow_receiver_delays_neither_the_others_nor_the_clock(nodes, agents):
    orders = [{"do": "lay-out", "text": LONG}, {"do": "start"}]
    for order in orders:
        nodes.order(order)
    assert [agents.read(1), agents.read(1)] == orders
    agents.sockets[1].sendall(link.encode({"event": "ready", "node": 1, "trainers": 1}))
    assert nodes.next(60)["node"] == 1
    assert not nodes._branches._channels[0].is_idle()
    assert [agents.read(0), agents.read(0)] == orders
    nodes.close()
    assert agents.read(0) == agents.read(1) == {"do": "quit"}


def test_signs_of_life_do_not_pile_up_before_a_slow_receiver(nodes, agents):
    nodes.order({"do": "lay-out", "text": LONG})
    for _ in range(10):
        nodes._branches._beat_at = 0.0
        nodes._branches.beat_if_due()
    nodes.order({"do": "start"})
    assert agents.read(0)["do"] == "lay-out"
    assert json.loads(agents.readers[0].readline()) == {"do": "start"}


def test_a_message_in_small_pieces_and_several_at_once(nodes, agents):
    line = link.encode({"event": "ready", "node": 0, "trainers": 1, "text": LONG[:1000]})
    for first in range(0, len(line), 100):
        agents.sockets[0].sendall(line[first : first + 100])
    agents.sockets[0].sendall(line + line)
    assert [nodes.next(60)["text"] for _ in range(3)] == [LONG[:1000]] * 3


@pytest.mark.parametrize("data", [b"{}\n", b"no JSON\n", b'{"event": "ready", "node": 7}\n', b"x" * 2000])
def test_node_with_an_invalid_message_is_disconnected_alone(nodes, agents, data, monkeypatch):
    monkeypatch.setattr(link, "LONGEST_LINE", 1000)
    agents.sockets[0].sendall(data)
    assert set(agents.readers[0]) <= {link.encode(BEAT)}
    agents.sockets[1].sendall(link.encode({"event": "ready", "node": 1, "trainers": 1, "time": "noon"}))
    seen = []
    while "ready" not in seen:
        try:
            seen.append(nodes.next(60)["event"])
        except Failed as failed:
            assert failed.failure["node"] == 0


def test_a_value_that_json_does_not_have_is_refused_at_once(nodes, agents):
    with pytest.raises(ValueError, match="not JSON compliant"):
        nodes.order({"do": math.nan})


def test_a_flood_of_messages_waits_in_the_connection(nodes, agents, monkeypatch):
    monkeypatch.setattr(roster, "_MOST_WAITING", 10)
    line = link.encode({"event": "ready", "node": 0, "trainers": 1, "text": "x" * 100_000})
    agents.sockets[0].settimeout(1)
    with pytest.raises(TimeoutError):
        for _ in range(1000):
            agents.sockets[0].sendall(line)
    assert nodes._inbox.qsize() < 20
