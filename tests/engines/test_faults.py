"""What goes wrong on clusters, and how it ends: controllers that die, jobs that are cancelled, strangers who call."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import time
import zipfile
from contextlib import closing

import pytest
import root_file_system
import toy_reference
from test_conformance import ended, failure, until_measuring

from dlperf_sdk import run
from dlperf_sdk.api import campaign
from dlperf_sdk.campaigns.matrix import Matrix
from dlperf_sdk.parity import reference
from dlperf_sdk.replay import attach
from dlperf_sdk.worker import rendezvous

TOY = {
    "batch_size": 8,
    "warmup": 2,
    "steps": 20,
    "repeats": 1,
    "python": sys.executable,
    "deadlines": {"step": 6.0},
}
"""The deadline is for the parity run, in which a worker that hangs does so as well."""


def test_thirty_two_ranks_at_once(bench):
    events = list(bench.events("slurm-step", "4n8d", deadlines={"start": 120.0}))
    assert failure(events) is None
    assert [record["rank"] for record in ended(events)[0]["records"]] == list(range(32))


def test_a_stranger_who_calls_replays_and_babbles_disturbs_nobody(bench):
    with closing(
        bench.events("slurm-step", framework="faulty", options={"fault": "slow"}, steps=200)
    ) as stream:
        until_measuring(stream)
        secret = zipfile.ZipFile(bench.folder / "case.pyz").read("secret").decode()
        callers = []
        for port in rendezvous.ports(secret):
            try:
                callers.append(socket.create_connection(("10.77.0.1", port), 2))
            except OSError:
                continue
        assert callers, "nobody listens on a candidate port"
        challenge = callers[0].recv(4096)
        callers[0].sendall(challenge)
        for said in (b"\xff" * 5000, b'{"event": "ended", "node": 1}\n', b'{"proof": "", "challenge": ""}\n'):
            with socket.create_connection(callers[0].getpeername(), 2) as babbler:
                babbler.sendall(said)
        events = list(stream)
        for caller in callers:
            caller.close()
    assert failure(events) is None


def _controller(bench, engine, **fields):
    """A controller in a process of its own; gives it when its workers are in their window."""
    if engine == "slurm-step":
        bench._allocate()
    options = {**bench.cluster.options(engine.partition("-")[0]), **fields.pop("options", {})}
    fields = {**TOY, "topology": f"2n1d@{engine.partition('-')[0]}", "options": options, **fields}
    script = bench.folder / "controller.py"
    script.write_text(
        textwrap.dedent(
            f"""
            from dlperf_sdk import run
            from dlperf_sdk.hookspecs import hookimpl

            class Watch:
                @hookimpl
                def dlperf_run_started(self, run_id):
                    print("run", run_id, flush=True)

                @hookimpl
                def dlperf_step_progress(self, phase):
                    print(phase, flush=True)

            run("faulty", "linear", store={str(bench.folder / "lost")!r}, observers=[Watch()], **{fields!r})
            """
        )
    )
    controller = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    run_id = ""
    for line in controller.stdout:
        run_id = line.split()[1] if line.startswith("run ") else run_id
        if line.strip() == "measure":
            return controller, run_id
    raise AssertionError("it never came so far")


@pytest.mark.parametrize("engine", ["ssh", "mpi", "slurm-step"])
def test_a_killed_controller_takes_its_workers_along(bench, engine):
    controller, _ = _controller(bench, engine, options={"fault": "stubborn"})
    with controller:
        controller.kill()


def test_a_job_outlives_its_controller_and_can_be_attached_to(bench):
    controller, run_id = _controller(bench, "slurm", options={"fault": "slow"}, steps=300, repeats=2)
    with controller:
        controller.kill()
    job = subprocess.run(
        ["squeue", "-h", "-n", f"dlperf-{run_id}", "-o", "%i"], capture_output=True, text=True, check=True
    ).stdout.strip()
    result = attach(job, bench.folder / "found")
    assert result.id == run_id
    assert result.failure is None
    assert len(result.repeats) == 2
    assert "\nnumpy==" in result.environment.lock
    assert result.verdict("parity").outcome == "pass", result.verdict("parity")
    assert (bench.folder / "found" / run_id / "result.json").exists()


def test_a_submitted_case_is_one_job_with_its_parity_run(bench, monkeypatch):
    """Nobody waits twice for a place; what the run has left serves the next."""
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(bench.folder / "cache"))
    toy_reference.write(bench.folder)
    reference.load.cache_clear()
    plugins, before = toy_reference.registry(bench.folder), _jobs()
    case = {"topology": "2n1d@slurm", "store": bench.folder / "store", "registry": plugins, **TOY}
    result = run("numpy", "mine", **case)
    assert result.verdict("parity").outcome == "pass", result.verdict("parity")
    assert len(result.repeats) == 1
    assert len(_jobs() - before) == 1


def _jobs():
    """The jobs that Slurm knows of."""
    told = subprocess.run(
        ["scontrol", "-o", "show", "jobs"], capture_output=True, text=True, check=True
    ).stdout
    return {line.split()[0] for line in told.splitlines() if "JobName=dlperf-" in line}


def test_a_job_that_is_cancelled_from_outside(bench):
    with closing(bench.events("slurm-job", framework="faulty", options={"fault": "stubborn"})) as stream:
        until_measuring(stream)
        began = time.monotonic()
        subprocess.run(["scancel", bench.job()], check=True)
        told = failure(list(stream))
    assert told["kind"] == "interrupted"
    assert time.monotonic() - began < 30


def test_an_allocation_that_is_cancelled_from_outside(bench):
    with closing(bench.events("slurm-step", framework="faulty", options={"fault": "stubborn"})) as stream:
        until_measuring(stream)
        subprocess.run(["scancel", os.environ["SLURM_JOB_ID"]], check=True)
        told = failure(list(stream))
    assert told["kind"] == "interrupted"


def test_slurms_own_time_limit(bench):
    options = {"fault": "stubborn", "time_limit": "0:01"}  # Slurm rounds it up to a minute
    with closing(bench.events("slurm-job", framework="faulty", options=options)) as stream:
        told = failure(list(stream))
    assert told["kind"] == "timeout"
    assert "time_limit" in told["message"]


def test_a_campaign_in_one_allocation_goes_on_after_a_lost_node(bench):
    """Its first case loses a node; the others are measured in the same allocation."""
    bench._allocate()
    axes = {"options": [{"fault": "stubborn"}, {"fault": "none"}]}
    fields = {"framework": "faulty", "model": "linear", "topology": "2n1d@slurm", **TOY}
    fields.pop("python")
    watched = []

    class Killer:
        from dlperf_sdk.hookspecs import hookimpl

        @hookimpl
        def dlperf_step_progress(self, phase):
            if phase == "measure" and not watched:
                watched.append(phase)
                agents = bench.cluster.nodes[1].processes("agent --case")
                for pid in agents:
                    os.kill(pid, signal.SIGKILL)

    outcome = campaign(Matrix(fields=fields, axes=axes), bench.folder / "campaign", observers=[Killer()])
    assert watched
    results = {result.spec.options["fault"]: result for result in outcome.results()}
    assert results["none"].status == "ok", results["none"].failure
    assert results["stubborn"].status != "ok"


def test_a_node_that_another_one_cannot_reach(bench):
    """Both reach the coordinator; their workers would wait for each other in vain."""
    node = bench.cluster.nodes[1]
    node.run("ip", "route", "add", "prohibit", bench.cluster.nodes[2].address)
    try:
        told = failure(list(bench.events("ssh", "3n1d")))
    finally:
        node.run("ip", "route", "del", "prohibit", bench.cluster.nodes[2].address)
    assert (told["kind"], told["node"]) == ("unavailable", 1)
    assert "From node 1 (n2) nobody can connect to node 2 (n3)" in told["message"]


def test_a_node_with_another_environment(bench):
    """The same path, another Python behind it."""
    folder, node = bench.cluster.home / "differs", bench.cluster.nodes[1]
    folder.mkdir()
    node.run("mount", "-t", "tmpfs", "tmpfs", str(folder))
    (folder / "python").symlink_to(sys.executable)
    node.run("ln", "-s", "/usr/bin/python3", str(folder / "python"))
    try:
        told = failure(list(bench.events("ssh", "3n1d", python=str(folder / "python"))))
    finally:
        node.run("umount", str(folder))
    assert (told["kind"], told["node"]) == ("environment", 1)
    assert told["message"].startswith("Node 1 (n2) has ")
    assert "All nodes of a case must have the same environment." in told["message"]


def test_a_hosts_file_and_whom_to_log_in_as(bench):
    file = bench.folder / "hosts"
    file.write_text("# mine\nroot@n3 slots=8\n\nroot@n1\n")
    options = {"hosts": "", "hostfile": str(file)}
    events = list(bench.events("ssh", options=options))
    assert failure(events) is None
    nodes = next(event for event in events if event["event"] == "agents-ready")["nodes"]
    assert [node["host"] for node in nodes] == ["n3", "n1"]


@pytest.mark.parametrize("engine", ["mpi", "slurm-step", "slurm-job"])
def test_a_container_on_every_node(bench, engine, monkeypatch):
    """What tells an agent its place is in there as well; the bundle comes on standard input as ever."""
    folder = bench.cluster.home / engine  # not below /tmp, which is each node's own
    folder.mkdir()
    root = root_file_system.make(folder, monkeypatch)
    events = list(
        bench.events(engine, container=f"podman:{root}", container_mounts=root_file_system.mounts())
    )
    assert failure(events) is None
    nodes = next(event for event in events if event["event"] == "agents-ready")["nodes"]
    assert [node["host"] for node in nodes] == ["n1", "n2"]
    assert {node["virtualisation"]["container"] for node in nodes} == {"podman"}


def test_run_gives_a_result_through_every_engine(bench, tmp_path):
    """The front door, with a store and verdicts, inside an allocation."""
    bench._allocate()
    result = run("numpy", "linear", topology="4n1d@slurm", store=tmp_path / "store", **TOY)
    assert result.ok, result.failure
    assert {fact.name: fact.observed for fact in result.facts}["topology"] == "4n1d@slurm"
    assert [node["network"]["interface"] for node in result.hardware] == ["eth0"] * 4
