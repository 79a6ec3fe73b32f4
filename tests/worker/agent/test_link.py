"""The connection between agents and coordinator, and the coordinator against whoever calls it."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from contextlib import closing, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from played_agents import SECRET, Node, close_all, part, ready, record

from dlperf_sdk import RunSpec
from dlperf_sdk.errors import FAILURES
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.worker.agent import branches, link, node_check
from dlperf_sdk.worker.agent import coordinator as coordinator_module
from dlperf_sdk.worker.agent.address_table import compress, expand
from dlperf_sdk.worker.agent.agent import Agent
from dlperf_sdk.worker.agent.attempt import Attempt
from dlperf_sdk.worker.agent.coordinator import Coordinator
from dlperf_sdk.worker.failures import select_cause
from dlperf_sdk.worker.gpu import devices


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def call(listener):
    return socket.create_connection(listener.getsockname(), 5)


def accepted(listener, timeout=5.0):
    """The next caller, judged in a thread of its own, as the coordinator does; the list gets the link or None."""
    judgment = []

    def judge():
        connection, _ = listener.accept()
        judgment.append(link.accept(connection, SECRET, timeout))

    thread = threading.Thread(target=judge, daemon=True)
    thread.start()
    return thread, judgment


def join(thread, seconds=5.0):
    thread.join(seconds)
    assert not thread.is_alive()


# -- the opening


def test_the_same_secret_opens_it(listener):
    thread, judgment = accepted(listener)
    mine = link.connect(listener.getsockname(), SECRET, 5)
    join(thread)
    theirs = judgment[0]
    messages = [{"event": "hello", "text": "ü\n\u2028"}, {"n": 1e308}]
    for message in messages:
        assert mine.send(message)
    received = theirs.messages()
    assert [next(received), next(received)] == messages
    mine.close()
    assert list(received) == []
    theirs.close()


def test_another_secret_does_not(listener):
    thread, judgment = accepted(listener)
    with pytest.raises(ConnectionRefusedError, match="is not the coordinator of this run"):
        link.connect(listener.getsockname(), "6" * 64, 5)
    join(thread)
    assert judgment == [None]


@pytest.mark.parametrize("output", [b"", b"{}\n", b'{"challenge": "1"}\n{"proof": "1"}\n', b"\xff" * 5000])
def test_agent_leaves_an_unauthenticated_coordinator(listener, output):
    def pose():
        with listener.accept()[0] as caller:
            caller.sendall(output)

    thread = threading.Thread(target=pose, daemon=True)
    thread.start()
    with pytest.raises(OSError):
        link.connect(listener.getsockname(), SECRET, 5)
    join(thread)


def test_man_in_the_middle_cannot_authenticate(listener):
    """Who listens on another port and hands everything on: the proof is of the port that the agent called."""
    thread, judgment = accepted(listener)
    with socket.create_server(("127.0.0.1", 0)) as between:

        def relay():
            with between.accept()[0] as agent, call(listener) as coordinator:
                agent.sendall(coordinator.recv(4096))
                coordinator.sendall(agent.recv(4096))

        relaying = threading.Thread(target=relay, daemon=True)
        relaying.start()
        with pytest.raises(OSError):
            link.connect(between.getsockname(), SECRET, 5)
        join(relaying)
    join(thread)
    assert judgment == [None]


def test_a_proof_is_good_for_one_challenge_only(listener):
    """Somebody who has listened in cannot say the same again."""
    thread, judgment = accepted(listener)
    with call(listener) as first, first.makefile() as reader:
        challenge, port = json.loads(reader.readline())["challenge"], listener.getsockname()[1]
        output = {"proof": link._proof(SECRET, "agent", challenge, "mine", port), "challenge": "mine"}
        proof = json.dumps(output).encode() + b"\n"
        first.sendall(proof)
        join(thread)
        judgment[0].close()
    thread, judgment = accepted(listener)
    with call(listener) as second:
        second.sendall(proof)
        join(thread)
    assert judgment == [None]


GARBAGE = [
    b"\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\xff\xfe\x00\n",
    b"[]\n",
    b"null\n",
    b'{"proof": null}\n',
    b'{"proof": "\xc3\xa9"}\n',
    b'{"proof": "\\ud800"}\n',
    b'{"proof": {}}\n',
    b"[" * 1000 + b"\n",
    b'{"a":' * 180 + b"\n",
    b"x" * 5000,
    b"",
]


@pytest.mark.parametrize("output", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_turned_away(listener, output):
    thread, judgment = accepted(listener)
    with call(listener) as caller:
        with suppress(OSError):  # it may be turned away before it has said everything
            caller.sendall(output)
            caller.shutdown(socket.SHUT_WR)
        join(thread)
        assert judgment == [None]


@given(said=st.binary(max_size=2000))
@settings(max_examples=30, deadline=None)
def test_any_bytes_are_turned_away(said):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        test_garbage_is_turned_away(listener, said)


def test_unauthenticated_peer_cannot_use_much_memory(listener):
    """An endless line is cut off after a kilobyte, not after a quarter of a gigabyte."""
    thread, judgment = accepted(listener, timeout=60)
    with call(listener) as caller:
        with suppress(OSError):
            caller.sendall(b"x" * (link.LONGEST_PROOF + 1))
        join(thread)
    assert judgment == [None]


def test_silent_peer_is_dropped(listener):
    thread, judgment = accepted(listener, timeout=0.2)
    with call(listener):
        join(thread)
    assert judgment == [None]


def test_peer_that_sends_byte_by_byte_is_dropped(listener):
    """The time-out is of the whole opening, not of each byte."""
    thread, judgment = accepted(listener, timeout=0.3)
    sent = 0
    with call(listener) as caller:
        while sent < 400 and thread.is_alive():
            with suppress(OSError):
                caller.sendall(b"x")
            sent += 1
            time.sleep(0.02)
        assert sent < 400
        join(thread)
    assert judgment == [None]


# -- messages


def pair():
    """Two ends of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = call(server)
        return one, server.accept()[0]


@pytest.mark.parametrize(
    "output",
    [
        *(b"{}", b"not json\n", b"\xff\n", b"[1]\n", b"3\n", b'{"a": NaN}\n'),
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n",
        b'{"a": [' + b"[]," * (link.MOST_MEMORY // 160) + b"[]]}\n",
    ],
    ids=["unfinished", "text", "bytes", "array", "number", "NaN", "deep", "memory"],
)
def test_invalid_message_closes_the_connection(output):
    ours, theirs = pair()
    with closing(theirs):
        reading = link.Link(ours)
        sender = threading.Thread(
            target=lambda: (theirs.sendall(b'{"n": 1}\n' + output), theirs.close()), daemon=True
        )
        sender.start()
        assert list(reading.messages()) == [{"n": 1}]
        reading.close()
        join(sender)


def test_a_line_that_is_too_long_ends_the_conversation(monkeypatch):
    monkeypatch.setattr(link, "LONGEST_LINE", 50)
    ours, theirs = pair()
    with closing(theirs):
        reading = link.Link(ours)
        theirs.sendall(b'{"n": 1}\n' + b'{"text": "' + b"x" * 100 + b'"}\n')
        assert list(reading.messages()) == [{"n": 1}]
        reading.close()


def test_sending_to_a_closed_peer_is_not_an_error():
    ours, theirs = pair()
    sending = link.Link(ours)
    theirs.close()
    while sending.send({"n": 1}):
        time.sleep(0.01)
    sending.close()


# -- the coordinator, with agents played by the test


@pytest.fixture
def lead(listener):
    """Start a coordinator for so many nodes; gives its address and its events. At the end it must have finished."""
    started = []

    def start(nodes=1, **fields):
        fields = {"repeats": 1, "deadlines": {"start": 5.0}, **fields}
        spec = RunSpec(framework="numpy", model="linear", topology=f"{nodes}n1d", **fields)
        request = make_plan(spec, Registry()).request("case", ("python",), {}, {"source": "synthetic"})
        events = []
        leader = Coordinator(request, listener, SECRET, events.append)
        leader.start()
        started.append(leader)
        return listener.getsockname(), events, leader

    yield start
    for leader in started:
        join(leader)
    close_all()
    for thread in threading.enumerate():
        if thread.name.endswith("(_admit)"):
            join(thread)


def test_a_node_lost_while_it_sends_its_logs_costs_no_finished_repeat(lead):
    address, events, leader = lead(nodes=1)
    node = Node(address, 0)
    ready(node)
    node.say(**part(logs=2))
    node.say(event="log", attempt=1, name="rank-0", text="the first piece")
    node.link.close()
    join(leader)
    kinds = [event["event"] for event in events if event["event"] != "heartbeat"]
    assert kinds == ["agents-ready", "attempt-started", "attempt-ended", "log", "ended"]
    assert events[-1]["failure"]["kind"] == "lost-node"
    assert next(event for event in events if event["event"] == "attempt-ended")["failure"] is None


def test_a_case_is_driven_to_its_end(lead):
    address, events, leader = lead(nodes=2)
    nodes = [Node(address, 0), Node(address, 1)]
    orders = ready(*nodes)
    assert [order["host_index"] for order in orders] == [0, 1]
    assert orders[0]["nodes"] == orders[1]["nodes"]  # they are on one machine
    facts = {"host": "127.0.0.1", "ports": ["1"], "devices": ["cpu:0"], "interface": "lo"}
    assert orders[0]["nodes"] == {"0": facts, "1": facts}
    for node in nodes:
        node.say(**part())
    for node in nodes:
        node.ordered("quit")
    join(leader)
    messages = [event["event"] for event in events if event["event"] != "heartbeat"]
    assert messages == ["agents-ready", "attempt-started", "attempt-ended", "ended"]
    assert re.fullmatch(r"20\S+T\S+[+]00:00", events[-1].pop("time"))
    assert events[-1] == {"event": "ended", "status": "ok", "failure": None}


def on_own_machine(listener, node):
    """An agent on a machine of its own."""
    return Node(listener, node, address=f"10.0.0.{node}")


def test_a_node_gets_the_addresses_that_it_needs_and_no_others(lead):
    address, _, leader = lead(nodes=4)
    nodes = [on_own_machine(address, number) for number in range(4)]
    for number, node in enumerate(nodes):
        node.prepare(needs_table=number == 2)
    table = expand(nodes[2].ordered("lay-out")["table"])
    assert table["3"] == {"host": "10.0.0.3", "ports": ["1"], "interface": "lo"}
    known = [set(node.ordered("start")["nodes"]) for node in nodes]
    assert known == [{"0", "1", "2", "3"}, {"0", "1"}, {"0", "2"}, {"0", "3"}]
    for node in nodes:
        node.say(event="ready", trainers=1)
    for node in nodes:
        node.ordered("go")
    for node in nodes:
        node.say(**part())
    join(leader)


def test_unauthenticated_peers_do_not_disturb(lead):
    """Callers who hang, babble or hold the wrong secret, before and during the run; no node waits for them."""
    address, events, leader = lead()
    with socket.create_connection(address), socket.create_connection(address) as babbler:
        babbler.sendall(b"\xff" * 2000 + b"\n" + b"{" * 2000)
        with pytest.raises(ConnectionRefusedError):
            Node(address, 0, secret="6" * 64)
        node = Node(address, 0)
        ready(node)
        node.say(**part())
        node.ordered("quit")
        join(leader)
    assert events[-1]["status"] == "ok"


HOSTILE = {
    "no event": {"event": None},
    "unknown failure": {"event": "failed", "failure": {"kind": "nonsense"}},
    "failure of nothing": {"event": "failed", "failure": None},
    "part without records": {"event": "ended"},
    "records that are none": part(records=[3]),
    "record without window": part(records=[record(window=None)]),
    "window without length": part(records=[record(window={"start": 1.0, "end": 1.0})]),
    "window of text": part(records=[record(window={"start": "a", "end": "b"})]),
    "samples of text": part(records=[record(samples="many")]),
    "ranks that cannot be sorted": part(records=[record(rank=0), record(rank="x")]),
    "failures that are none": part(failures=[None]),
    "no records": part(records=[]),
}


@pytest.mark.parametrize("message", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_malformed_message_ends_in_a_typed_failure(lead, monkeypatch, message):
    monkeypatch.setattr(coordinator_module, "SETTLE", 0.1)
    monkeypatch.setattr(coordinator_module, "SILENCE", 2.0)
    address, events, leader = lead()
    node = Node(address, 0)
    ready(node)
    node.say(**message)
    if message["event"] in (None, "failed"):
        node.say(**part(records=[]))
    join(leader, 8)
    assert events[-1]["event"] == "ended"
    assert events[-1]["status"] in FAILURES
    assert events[-1]["failure"]["kind"] == events[-1]["status"]
    assert events[-1]["failure"]["message"]


FORGED = {
    "no event": {"event": None},
    "event of another kind": {"event": ["hello"]},
    "event of the coordinator": {"event": "agents-ready", "nodes": []},
    "failure of no kind": {"event": "exhausted", "failure": {"kind": "ok", "message": "All is well."}},
    "failure of nothing": {"event": "exhausted", "failure": 5},
    "failure without a message": {"event": "failed", "failure": {"kind": "crashed"}},
    "progress of nothing": {"event": "progress", "attempt": 1},
    "part without records": {"event": "ended"},
    "records that are none": part(records=[3]),
    "too many processes": part(exits=[{}] * 1000),
    "less than no logs": part(logs=-1),
    "endless logs": part(logs=10**9),
    "endless notes": {
        **{"event": "prepared", "devices": [], "ports": [], "interface": "", "needs_table": False},
        "notes": ["busy"] * 1000,
    },
    "log that is too long": {"event": "log", "attempt": 1, "name": "rank-0", "text": "x" * 40_000},
}


@pytest.mark.parametrize("message", FORGED.values(), ids=FORGED.keys())
def test_a_malformed_message_is_a_failure_of_its_node(lead, monkeypatch, message):
    monkeypatch.setattr(coordinator_module, "SILENCE", 0.5)
    address, events, leader = lead(nodes=2)
    nodes = [Node(address, 0), Node(address, 1)]
    ready(*nodes)
    nodes[1].say(**message)
    nodes[0].ordered("end")
    nodes[0].say(**part(records=[]))
    join(leader, 8)
    failure = events[-1]["failure"]
    assert (events[-1]["status"], failure["kind"], failure["node"]) == ("invalid-record", "invalid-record", 1)
    assert failure["message"].startswith("Malformed message from node 1: ")
    assert "Check " in failure["message"]


def test_a_node_cannot_blame_another_one(lead, monkeypatch):
    monkeypatch.setattr(coordinator_module, "SILENCE", 0.5)
    address, events, leader = lead(nodes=2)
    nodes = [Node(address, 0), Node(address, 1)]
    ready(*nodes)
    nodes[1].say(event="exhausted", failure={"kind": "unavailable", "message": "No disk.", "node": 0})
    nodes[0].ordered("end")
    nodes[0].say(**part(records=[]))
    join(leader, 8)
    assert (events[-1]["failure"]["message"], events[-1]["failure"]["node"]) == ("No disk.", 1)


def test_a_second_agent_of_a_node_is_refused(lead):
    """A scheduler may start an agent twice; the second one's address must not replace the first one's."""
    address, _, leader = lead(nodes=2)
    first = Node(address, 1)
    while 1 not in leader._roster._hellos:
        time.sleep(0.01)
    assert next(Node(address, 1, address="10.0.0.7").orders, None) is None
    nodes = [Node(address, 0), first]
    assert [order["nodes"]["1"]["host"] for order in ready(*nodes)] == ["127.0.0.1"] * 2
    for node in nodes:
        node.say(**part())
    join(leader)


def test_more_logs_than_announced_are_dropped(lead):
    address, events, leader = lead(nodes=1)
    node = Node(address, 0)
    ready(node)
    log = {"event": "log", "attempt": 1, "name": "rank-0"}
    node.say(**log, text="before the part")
    node.say(**part(logs=1))
    node.say(**log, text="announced")
    node.say(**log, text="another one")
    join(leader)
    assert [event["text"] for event in events if event["event"] == "log"] == ["announced"]


@pytest.mark.parametrize(
    "fields",
    [
        {"address": "n1;reboot"},
        {"address": "-x"},
        {"facts": {"boot_id": []}},
        {"versions": [1]},
        {"unfit": {"kind": "ok", "message": "x"}},
        {"doorbell": "x"},
    ],
)
def test_a_malformed_introduction_names_its_node(lead, fields):
    address, events, leader = lead(nodes=2)
    Node(address, 0)
    Node(address, 1, **fields)
    join(leader, 8)
    assert (events[-1]["status"], events[-1]["failure"]["node"]) == ("invalid-record", 1)


@pytest.mark.parametrize(
    "fields", [{"ports": ["1 2"]}, {"ports": [1]}, {"interface": "lo\0"}, {"devices": ["cpu:0\n"]}]
)
def test_impossible_resources_name_their_node(lead, monkeypatch, fields):
    monkeypatch.setattr(coordinator_module, "SILENCE", 0.5)
    address, events, leader = lead(nodes=2)
    nodes = [Node(address, 0), Node(address, 1)]
    resources = {"devices": [], "ports": [], "interface": "", "needs_table": False, "notes": []}
    nodes[1].say(event="prepared", **{**resources, **fields})
    join(leader, 8)
    assert (events[-1]["status"], events[-1]["failure"]["node"]) == ("invalid-record", 1)


@pytest.mark.parametrize("hello", [{"facts": None}, {"facts": {}, "address": None}])
def test_a_malformed_hello_ends_in_a_typed_failure(lead, monkeypatch, hello):
    address, events, leader = lead()
    connection = link.connect(address, SECRET, 5)
    connection.send({"node": 0, "event": "hello", **hello})
    if hello["facts"] is not None:
        connection.send({"node": 0, "event": "prepared"})
    join(leader, 8)
    assert events[-1]["status"] == "invalid-record"
    connection.close()


@pytest.mark.parametrize("node", [-1, 1, "0", None, 0.0, True])
def test_a_node_that_is_none_is_not_listened_to(lead, node):
    address, events, leader = lead(deadlines={"start": 0.5})
    connection = link.connect(address, SECRET, 5)
    connection.send({"node": node, "event": "hello", "facts": {}, "address": "127.0.0.1"})
    join(leader)
    assert (events[-1]["status"], events[-1]["failure"]["phase"]) == ("lost-node", "start")
    connection.close()


def test_node_that_disconnects_is_lost_at_once_and_others_are_informed(lead):
    address, events, leader = lead(nodes=2)
    nodes = [Node(address, 0), Node(address, 1)]
    ready(*nodes)
    nodes[1].link.close()
    nodes[0].ordered("end")
    nodes[0].say(**part(records=[]))
    join(leader)
    assert events[-1]["status"] == "lost-node"
    assert events[-1]["failure"]["node"] == 1
    assert "has gone" in events[-1]["failure"]["message"]


def test_a_node_that_falls_silent_is_lost(lead, monkeypatch):
    monkeypatch.setattr(branches, "SILENCE", 0.5)
    monkeypatch.setattr(coordinator_module, "SILENCE", 0.5)
    address, events, leader = lead()
    node = Node(address, 0)
    ready(node)
    join(leader)
    assert "has not been heard" in events[-1]["failure"]["message"]


def test_node_without_devices_is_reported_at_once(lead):
    """Nothing has been started, so there is nothing to wait for."""
    address, events, leader = lead(nodes=2)
    nodes = [Node(address, 0), Node(address, 1)]
    nodes[0].ordered("prepare")
    nodes[1].ordered("prepare")
    nodes[1].say(event="unprepared", message="GPU 0 is held by another process.")
    started_at = time.monotonic()
    join(leader)
    assert time.monotonic() - started_at < 3
    assert events[-1]["failure"]["kind"] == "unavailable"
    assert events[-1]["failure"]["message"] == "GPU 0 is held by another process."
    assert events[-2]["event"] == "attempt-ended"


@given(st.lists(st.sampled_from(sorted(set(FAILURES) - {"interrupted"})), min_size=1), st.data())
def test_the_cause_is_the_most_telling_failure(kinds, data):
    types = data.draw(
        st.lists(st.sampled_from([None, "RuntimeError"]), min_size=len(kinds), max_size=len(kinds))
    )
    failures = [{"kind": kind, "type": type} for kind, type in zip(kinds, types, strict=True)]
    cause = select_cause(failures)
    assert cause in failures
    for kind in ("out-of-memory", "unsupported"):
        if kind in kinds:
            assert cause["kind"] in ("out-of-memory", "unsupported")
    if set(kinds) == {"crashed"} and None in types:
        assert cause["type"] is None


# -- the agent's side


PREPARE = {"attempt": 1, "host_index": 0, "host_count": 1}


def agent(tmp_path, connection):
    spec = RunSpec(framework="numpy", model="linear")
    request = make_plan(spec, Registry()).request("case", ("python",), {}, {"source": "synthetic"})
    return Agent(request, 0, connection, str(tmp_path), str(tmp_path))


def test_node_waiting_for_devices_sends_heartbeats(tmp_path, monkeypatch):
    """Busy devices are waited for much longer than a node may be silent."""
    free = threading.Event()

    def choose(*_):
        free.wait(5)
        return devices.Chosen(("cpu:0",), ())

    monkeypatch.setattr(devices, "choose", choose)
    ours, theirs = (link.Link(end) for end in pair())
    waiting, received = agent(tmp_path, ours), theirs.messages()
    waiting._execute("prepare", {**PREPARE, "address": "127.0.0.1"})
    waiting._watch()
    assert next(received)["event"] == "heartbeat"
    free.set()
    assert next(received)["event"] == "prepared"
    ours.close()
    theirs.close()


def test_a_node_whose_check_took_long_has_not_lost_its_coordinator(tmp_path, monkeypatch):
    """Nothing is sent to a node before its `hello`."""

    def introduce(*_):
        slow._last_message_at -= 2 * link.SILENCE
        return node_check.Introduction({"event": "hello"}, str(tmp_path), None)

    monkeypatch.setattr(node_check, "introduce", introduce)
    ours, theirs = (link.Link(end) for end in pair())
    slow = agent(tmp_path, ours)
    slow._execute("introduce", {})
    slow._watch()
    assert slow._inbox.empty()
    ours.close()
    theirs.close()


def test_node_without_ports_is_reported(tmp_path):
    ours, theirs = (link.Link(end) for end in pair())
    agent(tmp_path, ours)._execute("prepare", {**PREPARE, "address": "192.0.2.1"})
    output = next(theirs.messages())
    assert output["event"] == "unprepared"
    assert output["message"].startswith("Node 0 cannot choose its devices and ports: OSError")
    ours.close()
    theirs.close()


def test_workers_get_the_table_that_their_node_asked_for(tmp_path, monkeypatch):
    """For one attempt only: the next one has other ports."""
    started = []
    monkeypatch.setattr(Attempt, "start", lambda _, nodes, processes, orders: started.append(nodes))
    ours, theirs = (link.Link(end) for end in pair())
    starting = agent(tmp_path, ours)
    facts = {"ports": ["1"], "interface": "lo"}
    starting._execute("lay-out", {"table": compress([{**facts, "host": f"10.0.0.{n}"} for n in range(2)])})
    own = {"0": {**facts, "host": "10.0.0.0", "devices": ["cpu:0"]}}
    for attempt in (1, 2):
        starting._execute("start", {"attempt": attempt, "nodes": own, "host_index": 0, "host_count": 1})
    assert started == [{**own, "1": {**facts, "host": "10.0.0.1"}}, own]
    ours.close()
    theirs.close()


def test_a_module_of_the_bundle_that_is_missing_was_removed(tmp_path):
    ours, theirs = (link.Link(end) for end in pair())
    starting, received = agent(tmp_path, ours), theirs.messages()
    starting.request = starting.request._replace(processes="dlperf_sdk.worker.none:processes")
    starting._execute("start", {"attempt": 1, "nodes": {}, "host_index": 0, "host_count": 1})
    failed = next(received)
    assert (failed["event"], failed["failure"]["kind"]) == ("failed", "unavailable")
    assert "was removed during the run" in failed["failure"]["message"]
    ours.close()
    theirs.close()


@pytest.mark.parametrize("processes", ["json:loads", "no_such_module:processes"])
def test_a_layout_that_raises_is_the_cases_failure_not_the_nodes(tmp_path, processes):
    ours, theirs = (link.Link(end) for end in pair())
    starting, received = agent(tmp_path, ours), theirs.messages()
    starting.request = starting.request._replace(processes=processes)
    starting._execute("start", {"attempt": 1, "nodes": {}, "host_index": 0, "host_count": 1})
    failed, ended = next(received), next(received)
    assert (failed["event"], failed["failure"]["kind"], failed["failure"]["phase"]) == (
        "failed",
        "crashed",
        "start",
    )
    assert "could not be laid out" in failed["failure"]["message"]
    assert (ended["event"], ended["records"]) == ("ended", [])
    ours.close()
    theirs.close()
