"""Agents of several levels in real processes: a whole run, and what becomes of it when one of them is lost."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from played_agents import Node, close_all, part, ready
from processes import processes_with

from dlperf_sdk import RunSpec
from dlperf_sdk.launchers import local
from dlperf_sdk.planning.bundle import build
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.agent_events import repeat_from
from dlperf_sdk.worker.agent.tree import FAN_OUT, Tree

AGENT = """
import sys
node, sys.argv[0] = sys.argv[1], sys.argv[2]
sys.path.insert(0, sys.argv[0])
from dlperf_sdk.worker.agent import joining
sys.exit(joining.main(node, "127.0.0.1", None, sys.argv[3], None, None, False, fan_out=2))
"""


class Run:
    """Agents of a case with two nodes below each, and the events of the first one."""

    def __init__(self, folder, nodes, ports="", **fields):
        self.folder = folder
        spec = RunSpec(framework="numpy", model="linear", topology=f"{nodes}n1d", batch_size=8, **fields)
        request = make_plan(spec, Registry()).request("case", (sys.executable,), {}, {"source": "synthetic"})
        bundle = str(build(request, folder / "case.pyz").path)
        self.agents = [
            subprocess.Popen(
                [sys.executable, "-I", "-c", AGENT, str(node), bundle, ports],
                stdout=subprocess.PIPE if node == 0 else subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "TMPDIR": str(folder)},
            )
            for node in range(nodes)
        ]
        self.events = []

    def follow(self, attempt=None):
        """Read events: up to an attempt's first step, or to the end."""
        for line in self.agents[0].stdout:
            self.events.append(json.loads(line))
            event = self.events[-1]
            is_step = event["event"] == "progress" and event["attempt"] == attempt
            if is_step or event["event"] == "ended":
                return

    def signal(self, node, number):
        self.agents[node].send_signal(number)

    def leave_nothing(self):
        """Assert that every agent has ended, and that no process of the run is left."""
        for agent in self.agents:
            agent.wait(30)
        deadline = time.monotonic() + 15
        while processes_with(str(self.folder)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not processes_with(str(self.folder))

    def close(self):
        for agent in self.agents:
            agent.kill()
            agent.wait()
        self.agents[0].stdout.close()


@pytest.fixture
def run(tmp_path):
    started = []

    def start(nodes, **fields):
        started.append(Run(tmp_path, nodes, **fields))
        return started[-1]

    yield start
    for case in started:
        case.close()


def kept(events):
    return [
        event["attempt"] for event in events if event["event"] == "attempt-ended" and not event["failure"]
    ]


@pytest.mark.parametrize(
    ("lost", "number", "reason"),
    [
        (1, signal.SIGKILL, "has gone"),
        (3, signal.SIGKILL, "has gone"),
        (7, signal.SIGKILL, "has gone"),
        pytest.param(7, signal.SIGSTOP, "has not been heard for 15 s", marks=pytest.mark.long),
        pytest.param(3, signal.SIGSTOP, "has not been heard for 15 s", marks=pytest.mark.long),
    ],
    ids=["relay below node 0", "relay below a relay", "leaf", "silent leaf", "silent relay"],
)
def test_a_lost_agent_is_named_and_the_finished_repeat_is_kept(run, lost, number, reason):
    case = run(9, warmup=2, steps=500, repeats=5)
    case.follow(attempt=2)
    case.signal(lost, number)
    case.follow()
    failure = case.events[-1]["failure"]
    assert (failure["kind"], failure["node"]) == ("lost-node", lost)
    assert reason in failure["message"]
    assert kept(case.events) == [1]
    case.signal(lost, signal.SIGKILL)  # a stopped one cannot end itself
    case.leave_nothing()


def test_a_case_below_relays_leaves_nothing(run):
    case = run(9, warmup=2, steps=20, repeats=2)
    case.follow()
    assert case.events[-1]["failure"] is None
    assert kept(case.events) == [1, 2]
    assert [agent.wait(30) for agent in case.agents] == [0] * 9
    case.leave_nothing()


def test_a_node_without_a_port_for_its_relay_is_named(run):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    case = run(4, ports=f"{port}-{port}", deadlines={"start": 60.0})
    case.follow()
    failure = case.events[-1]["failure"]
    assert (failure["kind"], failure["node"], failure["phase"]) == ("unavailable", 1, "start")
    assert f"cannot join its run: none of the ports {port} is free" in failure["message"]
    for agent in case.agents:  # as a controller does; one that has not joined would wait until the deadline
        agent.terminate()
    case.leave_nothing()


@pytest.mark.long
def test_more_nodes_than_connect_to_node_0_hand_in_their_records(stream, monkeypatch):
    """With the fan-out of users: some nodes are below node 1."""
    monkeypatch.setattr(local, "_MAX_WORKERS_PER_CORE", FAN_OUT + 6)
    nodes = FAN_OUT + 6
    events = stream(topology=f"{nodes}n1d", repeats=1, deadlines={"start": 300.0})
    assert events[-1]["failure"] is None
    (ended,) = [event for event in events if event["event"] == "attempt-ended"]
    repeat = repeat_from(ended)
    assert [(record.rank, record.node) for record in repeat.records] == [(n, n) for n in range(nodes)]
    assert len({replica.digest for record in repeat.records for replica in record.replicas}) == 1


COORDINATE = """
import os, resource, socket, sys, threading, time
resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
from dlperf_sdk import RunSpec
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.worker.agent.coordinator import Coordinator
spec = RunSpec(framework="numpy", model="linear", topology="200n1d@ssh", repeats=1,
               options={"hosts": "n[0-199]"}, deadlines={"start": 120.0})
request = make_plan(spec, Registry()).request("case", ("python",), {}, {"source": "synthetic"})
listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
events = []
coordinator = Coordinator(request, listener, "5" * 64, events.append)
coordinator.start()
print(listener.getsockname()[1], flush=True)
coordinator.join()
print(events[-1]["failure"])
"""


def test_a_node_0_with_fewer_descriptors_than_nodes_runs_a_case():
    """A limit that the process cannot raise."""
    tree = Tree(200)
    with subprocess.Popen(
        [sys.executable, "-c", COORDINATE], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as coordinator:  # fmt: skip
        address = ("127.0.0.1", int(coordinator.stdout.readline()))
        nodes = [Node(address, number, tree=tree) for number in range(tree.nodes)]
        ready(*nodes)
        for node in nodes:
            node.say(**part())
        assert coordinator.communicate(timeout=60)[0] == "None\n"
    close_all()
