"""The coordinator's view of the nodes: which one is silent, and that a slow one delays no other."""

from __future__ import annotations

import math
import queue
import socket
import threading
import time

import pytest

from dlperf_sdk.worker.agent import roster
from dlperf_sdk.worker.agent.outbox import Outbox
from dlperf_sdk.worker.failures import Failed


@pytest.fixture
def nodes():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield roster.Roster(2, listener, "5" * 64, lambda: None)


class Receiver:
    """A link that takes messages while `open` is set."""

    def __init__(self):
        self.open, self.lines = threading.Event(), queue.Queue()

    def send_line(self, line):
        assert self.open.wait(60)
        self.lines.put(line)
        return True


def test_silence_is_judged_with_an_empty_inbox_only(nodes):
    """The coordinator was busy: what the node said meanwhile lies in the inbox."""
    nodes._last_heartbeats[0] = time.monotonic() - 10 * roster.SILENCE
    nodes._inbox.put({"event": "heartbeat", "node": 0})
    nodes._inbox.put({"event": "ready", "node": 0})
    assert nodes.next(60)["event"] == "ready"
    assert nodes.next(0) is None


def test_a_node_is_silent_once_the_inbox_is_empty(nodes):
    nodes._last_heartbeats[1] = time.monotonic() - 10 * roster.SILENCE
    nodes._inbox.put({"event": "ready", "node": 0})
    assert nodes.next(60)["event"] == "ready"
    with pytest.raises(Failed) as error:
        nodes.next(60)
    assert error.value.failure["node"] == 1
    assert "has not been heard" in error.value.failure["message"]


def test_a_slow_receiver_delays_neither_the_others_nor_the_clock(nodes):
    slow, fast = Receiver(), Receiver()
    fast.open.set()
    nodes._outboxes.update({0: Outbox(slow), 1: Outbox(fast)})
    for number in range(3):
        nodes.order({"do": number})
    assert [fast.lines.get(timeout=60) for _ in range(3)] == [b'{"do": 0}\n', b'{"do": 1}\n', b'{"do": 2}\n']
    nodes._inbox.put({"event": "ready", "node": 1})
    assert nodes.next(60)["event"] == "ready"
    assert slow.lines.empty()
    slow.open.set()
    nodes.close()
    sent = [slow.lines.get(timeout=60) for _ in range(4)]
    assert sent == [b'{"do": 0}\n', b'{"do": 1}\n', b'{"do": 2}\n', b'{"do": "quit"}\n']


def test_signs_of_life_do_not_pile_up_before_a_slow_receiver(nodes):
    slow = Receiver()
    nodes._outboxes[0] = Outbox(slow)
    for _ in range(10):
        nodes._beat_nodes()
    slow.open.set()
    nodes.close()
    sent = [slow.lines.get(timeout=60)]
    while sent[-1] != b'{"do": "quit"}\n':
        sent.append(slow.lines.get(timeout=60))
    assert len(sent) <= 3


def test_a_value_that_json_does_not_have_is_refused_at_once(nodes):
    nodes._outboxes[0] = Outbox(Receiver())
    with pytest.raises(ValueError, match="not JSON compliant"):
        nodes.order({"do": math.nan})
