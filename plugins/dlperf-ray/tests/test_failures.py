"""How runs end on a real Ray cluster when something fails, and that nothing is left."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from conftest import Cluster, processes_of, until_ended

from dlperf_sdk import run
from dlperf_sdk.hookspecs import hookimpl
from dlperf_sdk.results.store import ResultStore

TOY = {"batch_size": 4, "warmup": 1, "steps": 5, "repeats": 1, "python": sys.executable, "store": None}


class Watch:
    """Calls a function with the name of the run when the workers are in the window of an attempt."""

    def __init__(self, action, attempt=1):
        self._action, self._attempt, self.run_id = action, attempt, None

    @hookimpl
    def dlperf_run_started(self, run_id):
        self.run_id = run_id

    @hookimpl
    def dlperf_step_progress(self, attempt, phase):
        if self._action and (attempt, phase) == (self._attempt, "measure"):
            action, self._action = self._action, None
            action(self.run_id)


def agents_of(run_id):
    """Return the agents of a run by node."""
    found = {}
    for process in processes_of(run_id):
        words = process.cmdline()
        if "--case" in words and "dlperf_ray/driver" not in " ".join(words):
            found[int(process.environ()["DLPERF_RAY_NODE"])] = process
    return found


def slow_run(options, watch, **fields):
    fields = {**TOY, "repeats": 2, "steps": 20, "topology": "2n1d@ray", **fields}
    return run(
        "faulty", "linear", options={**options, "fault": "stubborn-second"}, observers=[watch], **fields
    )


def test_a_cluster_that_refuses_connections_is_named(ray_python):
    with socket.socket() as closed:  # bound, but not listening
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        options = {"address": address, "ray_python": ray_python}
        result = run("numpy", "linear", topology="2n1d@ray", options=options, **TOY)
    assert (result.status, result.failure.phase) == ("unavailable", "start")
    assert address in result.failure.message and "refused" in result.failure.message
    assert "--set address=" in result.failure.message


def test_a_port_that_never_answers_ends_within_the_deadline(ray_python):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        options = {"address": f"127.0.0.1:{silent.getsockname()[1]}", "ray_python": ray_python}
        result = run(
            "numpy", "linear", topology="2n1d@ray", options=options, **TOY, deadlines={"start": 15.0}
        )
    assert (result.status, result.failure.phase) == ("unavailable", "start")
    assert "--set address=" in result.failure.message


def test_a_python_without_ray_is_named():
    result = run("numpy", "linear", topology="1n1d@ray", options={"ray_python": sys.executable}, **TOY)
    assert (result.status, result.failure.phase) == ("unavailable", "start")
    assert "has no Ray" in result.failure.message and "--set ray_python=" in result.failure.message


@pytest.mark.parametrize(
    ("shape", "needed"), [("3n1d", "3 nodes with 1 CPU"), ("2n2d", "2 nodes with 2 CPU")]
)
def test_too_few_nodes_or_cpus_are_named_within_the_deadline(cluster, shape, needed):
    fields = {**TOY, "deadlines": {"start": 30.0}}
    result = run("numpy", "linear", topology=f"{shape}@ray", options=cluster.options, **fields)
    assert (result.status, result.failure.phase) == ("unavailable", "start")
    assert f"The case needs {needed}" in result.failure.message
    assert "1 of 1 CPU" in result.failure.message and "--set cpus=" in result.failure.message
    assert cluster.free_cpus() == 2


def test_an_agents_python_that_is_missing_is_named_with_its_node(cluster):
    options = {**cluster.options, "agent_python": "/nowhere/python9"}
    result = run("numpy", "linear", topology="2n1d@ray", options=options, **TOY)
    assert (result.status, result.failure.phase, result.failure.node) == ("unavailable", "start", 0)
    assert "--set agent_python=" in result.failure.message
    assert cluster.free_cpus() == 2


@pytest.mark.parametrize("node", [0, 1])
def test_an_agents_python_that_exits_is_named_with_its_node(cluster, tmp_path, node):
    python = tmp_path / "python3"
    python.write_text(
        f'#!/bin/sh\n[ "$DLPERF_RAY_NODE" = {node} ] && {{ echo broken >&2; exit 3; }}\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    options = {**cluster.options, "agent_python": str(python)}
    result = run("numpy", "linear", topology="2n1d@ray", options=options, **TOY, deadlines={"start": 30.0})
    assert result.status in ("unavailable", "lost-node")
    assert (result.failure.phase, result.failure.node) == ("start", node), result.failure
    assert "broken" in result.failure.message
    assert cluster.free_cpus() == 2


@pytest.mark.parametrize(
    ("fault", "status", "nodes"),
    [("sigkill-second", "crashed", {1}), ("hang-step-second", "timeout", {0, 1})],
)
def test_a_worker_that_fails_is_named_with_its_node(cluster, fault, status, nodes):
    """All ranks of a collective stop in the same step: the one whose deadline passes first is named."""
    watch = Watch(None)
    options = {**cluster.options, "fault": fault, "rank": 1}
    fields = {**TOY, "repeats": 2, "topology": "2n1d@ray", "deadlines": {"step": 4.0}, "options": options}
    result = run("faulty", "linear", observers=[watch], **fields)
    assert (result.status, result.failure.phase) == (status, "measure"), result.failure
    assert result.failure.node == result.failure.rank and result.failure.node in nodes
    assert len(result.repeats) == 1
    until_ended(watch.run_id)
    assert cluster.free_cpus() == 2


@pytest.mark.parametrize("node", [0, 1])
def test_a_killed_actor_is_a_lost_node(cluster, node):
    def kill_actor(run_id):
        psutil.Process(agents_of(run_id)[node].ppid()).kill()

    watch = Watch(kill_actor, attempt=2)
    result = slow_run(cluster.options, watch)
    assert (result.status, result.failure.node) == ("lost-node", node), result.failure
    assert len(result.repeats) == 1
    until_ended(watch.run_id)
    assert cluster.free_cpus() == 2


@pytest.mark.usefixtures("ray_python")
def test_a_killed_ray_node_is_a_lost_node():
    own = Cluster(2)
    try:
        placed = {}

        def kill_node(run_id):
            # Ray decides which of its nodes is node 1 of the case: its raylet is the actor's parent.
            actor = psutil.Process(agents_of(run_id)[1].ppid())
            placed["raylet"] = actor.parent()
            placed["raylet"].kill()

        watch = Watch(kill_node, attempt=2)
        result = slow_run(own.options, watch)
        assert "raylet" in placed
        assert (result.status, result.failure.node) == ("lost-node", 1), result.failure
        assert len(result.repeats) == 1
        until_ended(watch.run_id)
    finally:
        own.close()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_an_ended_controller(cluster, tmp_path, how):
    script = tmp_path / "controller.py"
    script.write_text(
        "import sys\nfrom test_failures import Watch, slow_run\n"
        "watch = Watch(lambda run_id: print(run_id, flush=True), attempt=2)\n"
        f"slow_run({cluster.options!r}, watch, store={str(tmp_path / 'store')!r})\n"
    )
    variables = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=variables
    ) as controller:
        run_id = controller.stdout.readline().strip()
        assert run_id
        controller.send_signal(how)
    until_ended(run_id)
    assert cluster.free_cpus() == 2
    if how == signal.SIGINT:
        result = ResultStore(tmp_path / "store").load(run_id)
        assert (result.status, len(result.repeats)) == ("interrupted", 1)


def test_standard_output_of_the_command_is_json_only(cluster, tmp_path):
    options = [word for name, value in cluster.options.items() for word in ("--set", f"{name}={value}")]
    case = ["--batch-size", "4", "--warmup", "1", "--steps", "5", "--repeats", "1", "--topology", "2n1d@ray"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "dlperf_sdk",
            "run",
            "numpy",
            "linear",
            *case,
            "--json",
            "--output",
            str(tmp_path / "out"),
            *options,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines() if not done.stdout.startswith("{\n") else [done.stdout]:
        json.loads(line)
