"""A node that cannot start its agent, through every engine: a typed failure within the deadline `start`."""

from __future__ import annotations

import sys
import time

import pytest
from test_conformance import LAUNCHERS, failure

START = 30.0
"""Seconds of the deadline; a failure that takes longer was found by something else."""


@pytest.fixture
def sabotaged(bench):
    """A function that gives the agents' Python, which one node does not have, or which exits there at once."""
    folder, broken = bench.cluster.home / f"agents-{bench.id}", []
    folder.mkdir()
    python = folder / "python"
    python.symlink_to(sys.executable)

    def sabotage(node, how):
        node = bench.cluster.nodes[node]
        broken.append(node)
        node.run("mount", "-t", "tmpfs", "tmpfs", str(folder))
        if how == "exits":
            node.run(
                "sh",
                "-c",
                f"printf '#!/bin/sh\\necho no such module >&2\\nexit 3\\n' > {python}; chmod 755 {python}",
            )
        return str(python)

    yield sabotage
    for node in broken:
        node.run("umount", str(folder))


@pytest.mark.fault_matrix
@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize("node", [0, 1])
@pytest.mark.parametrize("how", ["missing", "exits"])
def test_a_python_that_does_not_start_an_agent(bench, sabotaged, launcher, node, how):
    python, started_at = sabotaged(node, how), time.monotonic()
    problem = failure(
        list(bench.events(launcher, options={"agent_python": python}, deadlines={"start": START}))
    )
    lacks, exits = f"node {node} lacks the agents' Python", f"the agents' Python exits on node {node}"
    bench.add_outcome(lacks if how == "missing" else exits, launcher, problem, started_at)
    assert problem["kind"] in ("lost-node", "unavailable"), problem
    assert (problem["node"], problem["phase"]) == (node, "start"), problem
    assert "--set agent_python=" in problem["message"]
    assert time.monotonic() - started_at < 2 * START


@pytest.mark.fault_matrix
@pytest.mark.parametrize("launcher", ["ssh", "mpi"])
@pytest.mark.parametrize("node", [0, 1])
def test_a_host_that_drops_connections_to_ssh(bench, monkeypatch, launcher, node):
    """Its answers never arrive: ssh alone would wait for minutes. Slurm's daemon on the same node goes on."""
    monkeypatch.setenv("OMPI_MCA_plm_rsh_agent", f"ssh -F {bench.cluster.ssh_config}")
    # The ssh that mpirun starts reports a host by its address.
    addresses = ",".join(node.address for node in bench.cluster.nodes)
    hosts = {"hosts": addresses} if launcher == "mpi" else {}
    rule = ("ipproto", "tcp", "sport", "22", "blackhole")
    host = bench.cluster.nodes[node]
    host.run("ip", "rule", "add", *rule)
    try:
        started_at = time.monotonic()
        problem = failure(list(bench.events(launcher, options=hosts, deadlines={"start": START})))
        seconds = time.monotonic() - started_at
    finally:
        host.run("ip", "rule", "del", *rule)
    bench.add_outcome(f"node {node} drops ssh connections", launcher, problem, started_at)
    assert (problem["kind"], problem["node"], problem["phase"]) == ("lost-node", node, "start"), problem
    assert seconds < START


@pytest.mark.fault_matrix
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_node_that_cannot_reach_the_coordinator(bench, launcher):
    """In a job of its own, srun runs on the first node itself, and fails to start the second agent."""
    first, second = bench.cluster.nodes[:2]
    second.run("ip", "route", "add", "blackhole", first.address)
    started_at = time.monotonic()
    try:
        problem = failure(list(bench.events(launcher, deadlines={"start": 20.0})))
    finally:
        second.run("ip", "route", "del", "blackhole", first.address)
    bench.add_outcome("node 1 cannot connect to node 0", launcher, problem, started_at)
    if launcher == "slurm-job":
        assert (problem["kind"], problem["node"], problem["phase"]) == ("lost-node", 1, "start"), problem
        assert "n2" in problem["message"]
    elif launcher == "joined":
        assert (problem["kind"], problem["node"], problem["phase"]) == ("lost-node", 1, "start"), problem
        assert "have not joined within 18 s: local rank 0 of node 1." in problem["message"]
    else:
        assert (problem["kind"], problem["node"], problem["phase"]) == ("unavailable", 1, "start"), problem
        assert "cannot join its run: no coordinator of this run on n1" in problem["message"]
