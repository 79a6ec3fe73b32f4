"""What every launcher must do, against the real one: each test runs through each of them."""

from __future__ import annotations

import os
import signal
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from dlperf_sdk.results.agent_events import repeat_from

LAUNCHERS = ("ssh", "mpi", "slurm-step", "slurm-job", "joined")
CUT_OFF = ("node 0, with the coordinator, is cut off the network", "node 1 is cut off the network")


@pytest.fixture(params=LAUNCHERS)
def launcher(request):
    return request.param


def failure(events):
    assert events[-1]["event"] == "ended", events[-1]
    return events[-1]["failure"]


def ended(events):
    return [event for event in events if event["event"] == "attempt-ended"]


def until_measuring(stream, attempt=1):
    """Take events until a worker is in the window of an attempt."""
    for event in stream:
        if event["event"] == "progress" and (event["phase"], event["attempt"]) == ("measure", attempt):
            return
        assert event["event"] != "ended", event["failure"]


def until_started(stream, attempt):
    """Take events until an attempt has started."""
    for event in stream:
        if event["event"] == "attempt-started" and event["attempt"] == attempt:
            return
        assert event["event"] != "ended", event["failure"]


def test_every_rank_of_every_repeat_hands_in_a_record(bench, launcher):
    events = list(bench.events(launcher, "2n2d", repeats=2))
    assert failure(events) is None
    assert [event["attempt"] for event in ended(events)] == [1, 2]
    for event in ended(events):
        repeat = repeat_from(event)
        assert [record.rank for record in repeat.records] == [0, 1, 2, 3]
        assert [record.node for record in repeat.records] == [0, 0, 1, 1]
        assert len({replica.digest for record in repeat.records for replica in record.replicas}) == 1
    nodes = next(event for event in events if event["event"] == "agents-ready")["nodes"]
    assert [node["host"] for node in nodes] == ["n1", "n2"]
    assert [node["network"] for node in nodes] == [
        {"address": node.address, "interface": "eth0"} for node in bench.cluster.nodes[:2]
    ]


def test_nodes_get_the_address_of_a_node_that_serves_them(bench, launcher):
    """Node 1 asks for the addresses of all nodes, since its trainer needs that of node 2."""
    options = {"fault": "node-of-services"}
    events = list(bench.events(launcher, "3n1d", framework="faulty", strategy="independent", options=options))
    assert failure(events) is None
    assert [record["rank"] for record in ended(events)[0]["records"]] == [0, 1]


def test_one_node(bench, launcher):
    assert failure(list(bench.events(launcher, "1n1d"))) is None


@pytest.mark.fault_matrix
def test_a_killed_rank_is_named_with_its_node(bench, launcher):
    options = {"fault": "sigkill-second", "rank": 1}
    with closing(bench.events(launcher, framework="faulty", options=options, repeats=2)) as stream:
        until_started(stream, 2)
        started_at = time.monotonic()
        problem = failure(list(stream))
    bench.add_outcome("a worker is killed", launcher, problem, started_at, finished=1)
    assert (problem["kind"], problem["node"], problem["rank"], problem["phase"]) == (
        "crashed",
        1,
        1,
        "measure",
    )


@pytest.mark.fault_matrix
def test_a_rank_that_hangs_in_a_collective(bench, launcher):
    fields = {"options": {"fault": "hang-step-second", "rank": 1}, "deadlines": {"step": 2.0}, "repeats": 2}
    with closing(bench.events(launcher, framework="faulty", **fields)) as stream:
        until_started(stream, 2)
        started_at = time.monotonic()
        problem = failure(list(stream))
    any_node = {**problem, "node": "0 or 1"}
    bench.add_outcome("a worker hangs in a collective", launcher, any_node, started_at, finished=1)
    assert (problem["kind"], problem["phase"]) == ("timeout", "measure")
    assert problem["node"] == problem["rank"] in (0, 1)  # the others hang with it: who is late first is named


@pytest.mark.fault_matrix
def test_a_killed_agent_is_a_lost_node(bench, launcher):
    fields = {"options": {"fault": "stubborn-second"}, "repeats": 2}
    with closing(bench.events(launcher, framework="faulty", **fields)) as stream:
        until_measuring(stream, 2)
        started_at = time.monotonic()
        agent = next(pid for pid in bench.cluster.nodes[1].processes("agent --case") if _is_python(pid))
        os.kill(agent, signal.SIGKILL)
        problem = failure(list(stream))
    bench.add_outcome("an agent is killed", launcher, problem, started_at, finished=1)
    assert (problem["kind"], problem["node"]) == ("lost-node", 1), problem
    assert time.monotonic() - started_at < 30
    # Its directory could not be removed by itself: the next agent there does.
    assert failure(list(bench.events(launcher))) is None


def _is_python(pid):
    return Path(f"/proc/{pid}/comm").read_text().startswith("python")


@pytest.mark.fault_matrix
def test_a_node_that_is_cut_off(bench):
    """The coordinator's own, and another: n1 of the cases on n1 and n2, n4 of those on n3 and n4. One cut meets cases
    of every launcher: each ends within the bound and names the node; all workers end themselves, those of the cut nodes
    while they are still cut off."""
    nodes = bench.cluster.nodes
    pairs, cut = {0: "n1,n2", 1: "n3,n4"}, {0: nodes[0], 1: nodes[3]}
    cases = {}
    with ExitStack() as stack:
        # The jobs first: once there is an allocation, everything is a step of it.
        for launcher in ("slurm-job", "joined", "slurm-step", "ssh", "mpi"):
            for lost, pair in pairs.items():
                more = {
                    "slurm-job": {"exclusive": False, "sbatch_flags": f"-w {pair}"},
                    "slurm-step": {"srun_flags": f"-w {pair}"},
                }.get(launcher, {"hosts": pair})
                fields = {"options": {"fault": "stubborn-second", **more}, "repeats": 2}
                stream = bench.events(launcher, framework="faulty", name=f"{launcher}{lost}", **fields)
                until_measuring(stack.enter_context(closing(stream)), 2)
                cases[launcher, lost] = stream
        started_at = time.monotonic()
        for node in cut.values():
            node.cut()
        try:
            with ThreadPoolExecutor(len(cases)) as pool:
                ends = dict(
                    zip(
                        cases,
                        pool.map(lambda stream: _end_of(stream, started_at), cases.values()),
                        strict=True,
                    )
                )
            for node in nodes:
                while node.processes(bench.id) and time.monotonic() < started_at + 45:
                    time.sleep(0.2)
                assert not node.processes(bench.id), node.name
        finally:
            for node in cut.values():
                node.mend()
    for (launcher, lost), (message, took) in ends.items():
        # A controller on node 0 itself sees that all others are gone.
        seen = 1 if launcher == "joined" else lost
        assert (message["kind"], message["node"]) == ("lost-node", seen), (launcher, message)
        names = {0: {0: "n1", 1: "n2"}, 1: {1: "n4"}}
        assert names[lost][seen] in message["message"], (launcher, message)
        assert took < 30, (launcher, lost, took)
        fault, name = CUT_OFF[lost], f"{launcher}{lost}"
        bench.add_outcome(fault, launcher, message, time.monotonic() - took, finished=1, name=name)
    # They have come back, and are nodes like the others. Slurm itself takes up to a minute to notice.
    bench.leave()
    bench.close()
    bench.cluster.wait_idle(100)
    for launcher in ("ssh", "mpi", "slurm-job", "joined"):
        events = list(bench.events(launcher, "4n1d", name=f"{launcher}-again"))
        assert failure(events) is None, launcher
        actual = next(event for event in events if event["event"] == "agents-ready")["nodes"]
        assert [item["host"] for item in actual] == [node.name for node in nodes]


def _end_of(stream, started_at):
    """How a case failed, and how many seconds after `began` everything that could be reached had ended."""
    return failure(list(stream)), time.monotonic() - started_at


@pytest.mark.fault_matrix
def test_a_node_without_the_environment(bench, launcher, tmp_path):
    folder = bench.cluster.home / "environment"
    folder.mkdir(exist_ok=True)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nexec {os.environ.get("PYTHON", os.sys.executable)} "$@"\n')
    python.chmod(0o755)
    node = bench.cluster.nodes[1]
    node.run("mount", "-t", "tmpfs", "tmpfs", str(folder))
    started_at = time.monotonic()
    try:
        problem = failure(list(bench.events(launcher, python=str(python))))
    finally:
        node.run("umount", str(folder))
    bench.add_outcome("node 1 lacks the environment", launcher, problem, started_at)
    assert (problem["kind"], problem["node"]) == ("environment", 1)
    assert f"Node 1 (n2) lacks {python}" in problem["message"]


@pytest.mark.fault_matrix
def test_a_full_disk_on_one_node(bench, launcher):
    node = bench.cluster.nodes[1]
    node.run("dd", "if=/dev/zero", "of=/tmp/full", "bs=1M")
    started_at = time.monotonic()
    try:
        problem = failure(list(bench.events(launcher)))
    finally:
        node.run("rm", "/tmp/full")
    bench.add_outcome("the disk of node 1 is full", launcher, problem, started_at)
    assert (problem["kind"], problem["node"]) == ("unavailable", 1)
    assert "n2" in problem["message"]
    assert "No space left" in problem["message"]


def test_agents_and_workers_listen_only_on_the_chosen_address_and_ports(bench, launcher):
    options = {"fault": "stubborn", "ports": "40000-40063"}
    with closing(bench.events(launcher, framework="faulty", options=options)) as stream:
        until_measuring(stream)
        for node in bench.cluster.nodes[:2]:
            sockets = [line.split() for line in node.run("ss", "-ltnpH").splitlines() if "python" in line]
            actual = [words[3].rpartition(":") for words in sockets]
            assert actual, node.name
            assert {address for address, _, _ in actual} == {node.address}, sockets
            assert all(40000 <= int(port) <= 40063 for _, _, port in actual), sockets


def test_the_secret_is_in_no_command_line_and_no_readable_file(bench, launcher):
    with closing(bench.events(launcher, framework="faulty", options={"fault": "stubborn"})) as stream:
        until_measuring(stream)
        secret = zipfile.ZipFile(bench.folder / "case.pyz").read("secret").decode()
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                try:
                    for name in ("cmdline", "environ"):
                        assert secret.encode() not in Path(f"/proc/{entry.name}/{name}").read_bytes()
                except OSError:
                    continue
        for node in bench.cluster.nodes[:2]:
            listed = node.run("find", "/tmp", "-mindepth", "1", "-perm", "/077", "-not", "-type", "l").split()
            assert [path for path in listed if "/tmp/dlperf" in path] == []
            assert "dlperf-" in node.run("ls", "/tmp")
