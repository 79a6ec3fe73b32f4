"""Relays between a coordinator and agents played by the test: what they pass on, whom they trust, and each loss."""

from __future__ import annotations

import math
import socket
import threading
import time
from contextlib import ExitStack, closing, suppress

import pytest
from played_agents import SECRET, Node, close_all, part, ready

from dlperf_sdk import RunSpec
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.worker import network
from dlperf_sdk.worker.agent import branches, joining, link, relay, rendezvous
from dlperf_sdk.worker.agent.coordinator import Coordinator
from dlperf_sdk.worker.agent.tree import Tree

TREE = Tree(9, 2)
"""Nodes 1 and 2 below node 0, 3 and 4 below 1, 5 and 6 below 2, 7 and 8 below 3."""


def request_of(nodes, start=3.0):
    fields = {"repeats": 1, "deadlines": {"start": start}, "topology": f"{nodes}n1d"}
    spec = RunSpec(framework="numpy", model="linear", **fields)
    return make_plan(spec, Registry()).request("case", ("python",), {}, {"source": "synthetic"})


class Case:
    """A coordinator of the tree's nodes, and their agents."""

    def __init__(self, listener):
        request = request_of(TREE.nodes, start=20.0)
        self.events = []
        self.address = listener.getsockname()
        self.coordinator = Coordinator(request, listener, SECRET, self.events.append, fan_out=TREE.fan_out)
        self.coordinator.start()
        self.nodes = [Node(self.address, number, tree=TREE) for number in range(TREE.nodes)]

    def failure(self):
        """The failure with which the case has ended."""
        self.coordinator.join(30)
        assert not self.coordinator.is_alive()
        return self.events[-1]["failure"]

    def end(self, *lost):
        """Answer the order to end on all nodes but the lost ones."""
        for node in self.nodes:
            if node.node not in lost:
                node.ordered("end")
                node.say(**part(records=[]))


@pytest.fixture
def case():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield Case(listener)
        close_all()


def cut(node):
    """End a node's agent as the system does where its process is killed."""
    node.link.shut_down()
    if isinstance(node.agent, relay.Relay):
        for channel in list(node.agent._branches._channels.values()):
            channel.link.shut_down()


def test_orders_and_results_travel_through_three_levels(case):
    orders = ready(*case.nodes)
    assert [order["host_index"] for order in orders] == list(range(9))  # they are on one machine
    assert all("to" not in order for order in orders)
    for node in case.nodes:
        node.say(**part(records=[dict(part()["records"][0], rank=node.node)], logs=1))
        node.say(event="log", attempt=1, name=f"rank-{node.node}", text="done")
    for node in case.nodes:
        node.ordered("quit")
    assert case.failure() is None
    (ended,) = [event for event in case.events if event["event"] == "attempt-ended"]
    assert [record["rank"] for record in ended["records"]] == list(range(9))
    logs = [event["name"] for event in case.events if event["event"] == "log"]
    assert sorted(logs) == [f"rank-{rank}" for rank in range(9)]
    assert sorted(case.coordinator._roster._branches._channels) == [0, 1, 2]


def test_a_table_is_sent_once_per_link_and_reaches_whom_it_is_for(case):
    for node in case.nodes:
        node.prepare(needs_table=node.node in (4, 7))
    for node in case.nodes:
        if node.node in (4, 7):
            assert node.ordered("lay-out").keys() == {"do", "table"}
        node.ordered("start")
        node.say(event="failed", failure={"kind": "crashed", "message": "That is all."})
    case.end()
    assert case.failure()["message"] == "That is all."


@pytest.mark.parametrize("lost", [4, 7])
def test_a_lost_node_behind_relays_is_named_and_the_others_are_ended(case, lost):
    ready(*case.nodes)
    cut(case.nodes[lost])
    case.end(lost)
    failure = case.failure()
    assert (failure["kind"], failure["node"]) == ("lost-node", lost)
    assert failure["message"].startswith(f"The agent of node {lost} has gone.")


def test_a_lost_relay_is_named_and_its_descendants_end_themselves(case):
    ready(*case.nodes)
    cut(case.nodes[3])
    for node in case.nodes[7:]:
        assert all(message["do"] == "beat" for message in node.orders)
    started = time.monotonic()
    case.end(3, 7, 8)
    failure = case.failure()
    assert (failure["kind"], failure["node"]) == ("lost-node", 3)
    assert time.monotonic() - started < link.SILENCE  # the parts of nodes 7 and 8 are not waited for


class Below:
    """The links of a coordinator whose nodes 1 and 2 are in a row, without the coordinator."""

    def __init__(self, listener):
        self.answer, self.questions, self.received, self._relays = None, [], [], []
        self._port, self._tree = listener.getsockname()[1], Tree(3, 1)
        self.coordinator = branches.Branches(self._tree, 0, listener, SECRET, self._receive, self._find)
        self.coordinator.start()

    def connect(self, node, timeout=30):
        return rendezvous.join("127.0.0.1", [self._port], SECRET, timeout, self._tree, node)

    def join(self):
        """Connect node 1, and start its relay."""
        self._relays.append(joining.serve_below(self._tree, 1, self.connect(1), SECRET, ()))
        return self._relays[-1]

    def close(self):
        for agent in self._relays:
            agent.close()

    def _receive(self, message):
        self.received.append(message)
        return True

    def _find(self, node):
        self.questions.append(node)
        return self.answer


@pytest.fixture
def below():
    with socket.create_server(("127.0.0.1", 0)) as listener, closing(Below(listener)) as links:
        yield links


@pytest.fixture
def impatient(monkeypatch):
    """Beat often, and judge soon."""
    monkeypatch.setattr(branches, "SILENCE", 2.0)
    monkeypatch.setattr(branches, "_JUDGE", 0.1)
    monkeypatch.setattr(branches, "BEAT", 0.1)
    monkeypatch.setattr(relay, "BEAT", 0.1)
    monkeypatch.setattr(relay, "_LOOK", 0.05)


@pytest.mark.parametrize("silent", [7, 3, 1])
def test_a_silent_node_is_named_also_if_its_relay_is_alive(impatient, case, silent):
    ready(*case.nodes)
    while case.coordinator.is_alive():
        for node in case.nodes:
            if node.node != silent:
                node.say(event="heartbeat")
                if case.coordinator._roster._connected != set(range(9)):
                    node.say(**part(records=[]))
        time.sleep(0.1)
    failure = case.failure()
    assert (failure["kind"], failure["node"]) == ("lost-node", silent)
    assert "has not been heard" in failure["message"]


def test_a_node_that_is_still_being_checked_is_not_silent(impatient, below):
    """The check of a node may take a minute, and its relay serves others meanwhile."""
    below.join()
    deadline = time.monotonic() + 1.5 * branches.SILENCE
    while time.monotonic() < deadline:
        assert below.coordinator.find_silent() is None
        time.sleep(0.05)
    assert {message["event"] for message in below.received} == {"relay", "heartbeat"}


# -- who may connect, and what may be said


def address_of(node):
    return node.agent._listener.getsockname()


def test_strangers_at_a_relay_do_not_disturb(case):
    with socket.create_connection(address_of(case.nodes[1]), 5) as babbler:
        babbler.sendall(b"\xff" * 2000 + b"\n" + b"{" * 2000)
        with pytest.raises(ConnectionRefusedError):
            link.connect(address_of(case.nodes[1]), "6" * 64, 5)
        ready(*case.nodes)
        for node in case.nodes:
            node.say(**part())
        assert case.failure() is None


@pytest.mark.parametrize("node", [0, 1, 2, 5, 7, 9, -1, "3", None, True])
def test_a_relay_hears_only_the_nodes_that_connect_to_it(case, node):
    """Node 7 is below node 1, but connects to node 3."""
    peer = link.connect(address_of(case.nodes[1]), SECRET, 5)
    peer.send({"event": "exhausted", "node": node, "failure": {"kind": "unavailable", "message": "forged"}})
    assert list(peer.messages()) == []
    peer.close()
    ready(*case.nodes)
    for number in case.nodes:
        number.say(**part())
    assert case.failure() is None


@pytest.mark.parametrize("node", [0, 1, 4, 5])
def test_a_node_that_speaks_for_another_is_lost(case, node):
    """Node 3 may pass on what nodes 7 and 8 say, and nothing else."""
    ready(*case.nodes)
    case.nodes[3].agent._uplink.put({"event": "ready", "node": node, "trainers": 1})
    with suppress(AssertionError):
        case.end(3, 7, 8)
    failure = case.failure()
    assert (failure["kind"], failure["node"]) == ("lost-node", 3)


@pytest.mark.parametrize("number", ["NaN", "1e999"])
def test_a_number_that_json_does_not_have_is_not_passed_on(case, number):
    ready(*case.nodes)
    case.nodes[7].link.socket.sendall(b'{"event": "ready", "node": 7, "trainers": %s}\n' % number.encode())
    case.end(7)
    assert case.failure()["node"] == 7


@pytest.mark.parametrize("to", ["3", 3, [None], ["3"], [True]])
def test_a_malformed_order_ends_the_link(below, to):
    agent = below.join()
    while 1 not in below.coordinator._channels:
        time.sleep(0.01)
    below.coordinator._channels[1].put({"do": "end", "to": to})
    assert list(agent.messages()) == []


def test_a_number_that_json_does_not_have_is_refused_at_once(case):
    with pytest.raises(ValueError, match="not JSON compliant"):
        case.nodes[1].agent.send({"event": "ready", "node": 1, "trainers": math.nan})


# -- joining


def test_a_relay_listens_on_a_port_that_the_user_allows(case, below):
    assert {address_of(node)[1] in network.USUAL for node in case.nodes[1:4]} == {True}
    allowed = network.free_ports("127.0.0.1", 1)
    agent = joining.serve_below(Tree(3, 1), 1, below.connect(1), SECRET, [int(port) for port in allowed])
    assert agent._listener.getsockname()[1] == int(allowed[0])
    agent.close()


def test_an_agent_waits_for_the_relay_of_its_parent(below):
    joined = []
    joining_early = threading.Thread(target=lambda: joined.append(below.connect(2)), daemon=True)
    joining_early.start()
    while not below.questions:
        time.sleep(0.01)
    assert below.coordinator._channels == {}
    agent = below.join()
    below.answer = list(agent._listener.getsockname())
    joining_early.join(30)
    joined[0].send({"event": "hello", "node": 2})
    while 2 not in agent._branches._channels:
        time.sleep(0.01)
    assert set(below.questions) == {2}
    assert list(below.coordinator._channels) == [1]
    joined[0].close()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "no relay of this run on node 1: it has not started one"),
        (["127.0.0.1", 1], r"no relay of this run on node 1: 127.0.0.1, port 1: .* Open the ports"),
        (["127.0.0.1"], "it has not started one"),
        (["127.0.0.1", "1"], "it has not started one"),
    ],
)
def test_an_agent_without_a_relay_says_why(below, answer, why):
    below.answer = answer
    with pytest.raises(OSError, match=why):
        below.connect(2, timeout=0.5)


@pytest.mark.parametrize("node", [-1, 99, 10**30, "7", None, [], True])
def test_a_question_about_no_node_has_no_answer(case, node):
    assert link.ask_for_relay(case.address, SECRET, 5, node) is None
    close_all()
    assert case.failure()["kind"] == "lost-node"


def test_a_missing_node_and_its_relay_without_descriptors_are_named():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        coordinator = Coordinator(request_of(9), listener, SECRET, (events := []).append, fan_out=2)
        coordinator.start()
        nodes = [Node(listener.getsockname(), number, tree=TREE) for number in range(8)]
        nodes[3].agent._branches.admission.shortage = "not every connection could be accepted (few)"
        coordinator.join(30)
        close_all()
    message = events[-1]["failure"]["message"]
    assert "of nodes [8] within" in message
    assert "Some of them connect to the relays of node 3." in message
    assert message.endswith("On node 3, not every connection could be accepted (few).")


# -- memory


def test_a_relay_reads_no_more_than_its_parent_takes():
    """A parent that reads slowly must not fill the memory of the relay's node."""
    tree = Tree(3, 1)
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as stack:
        parent = []
        accepting = threading.Thread(
            target=lambda: parent.append(link.accept(listener.accept()[0], SECRET, 30)), daemon=True
        )
        accepting.start()
        uplink = rendezvous.join("127.0.0.1", [listener.getsockname()[1]], SECRET, 30, tree, 1)
        accepting.join(30)
        stack.callback(parent[0].close)
        agent = joining.serve_below(tree, 1, uplink, SECRET, ())
        child = link.connect(agent._listener.getsockname(), SECRET, 30)
        stack.callback(child.close)
        count, text = 500, "x" * 2**17

        def send():
            for number in range(count):
                child.send({"event": "log", "node": 2, "number": number, "text": text})

        sending = threading.Thread(target=send, daemon=True)
        sending.start()
        deadline = time.monotonic() + 30
        while len(agent._uplink.waiting) < relay._MOST_WAITING and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.5)
        assert relay._MOST_WAITING <= len(agent._uplink.waiting) < relay._MOST_WAITING + 5
        logs = (message for message in parent[0].messages() if message["event"] == "log")
        assert [next(logs)["number"] for _ in range(count)] == list(range(count))
        sending.join(30)
