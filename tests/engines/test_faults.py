"""What goes wrong on clusters, and how it ends: controllers that die, jobs that are cancelled, strangers who call."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest
import root_file_system
import toy_reference
from cluster import HYDRA
from test_conformance import LAUNCHERS, ended, failure, until_measuring

from dlperf_sdk import run
from dlperf_sdk.api import campaign
from dlperf_sdk.campaigns.matrix import Matrix
from dlperf_sdk.errors import Unavailable
from dlperf_sdk.execution.attaching import attach, find_job
from dlperf_sdk.launchers import mpi
from dlperf_sdk.launchers.slurm import jobs, stream
from dlperf_sdk.parity import reference
from dlperf_sdk.results.store import ResultStore
from dlperf_sdk.worker.agent import rendezvous

TOY = {
    "batch_size": 8,
    "warmup": 2,
    "steps": 20,
    "repeats": 1,
    "python": sys.executable,
    "deadlines": {"step": 6.0},
}
"""The deadline is for the parity run, in which a worker that hangs does so as well."""
AN_HOUR_AHEAD = f"""\
#!{sys.executable}
import sys, time

at, now = sys.argv.index("-c") + 1, time.time
source = sys.argv[at]
time.time = lambda: now() + 3600.0
sys.argv = ["-c", *sys.argv[at + 1 :]]
exec(compile(source, "<string>", "exec"), {{"__name__": "__main__"}})
"""
"""A node's Python whose clock is ahead of the others'."""


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_thirty_two_ranks_at_once(bench, launcher):
    events = list(bench.events(launcher, "4n8d", deadlines={"start": 120.0}))
    assert failure(events) is None
    assert [record["rank"] for record in ended(events)[0]["records"]] == list(range(32))


def test_unauthenticated_connections_replays_and_garbage_do_not_disturb_a_run(bench):
    with closing(
        bench.events("slurm-step", framework="faulty", options={"fault": "slow"}, steps=500)
    ) as stream:
        until_measuring(stream)
        secret = zipfile.ZipFile(bench.folder / "case.pyz").read("secret").decode()
        callers = []
        for port in rendezvous.candidate_ports(secret):
            try:
                callers.append(socket.create_connection((bench.cluster.nodes[0].address, port), 2))
            except OSError:
                continue
        assert callers, "nobody listens on a candidate port"
        challenge = callers[0].recv(4096)
        callers[0].sendall(challenge)
        for output in (
            b"\xff" * 5000,
            b'{"event": "ended", "node": 1}\n',
            b'{"proof": "", "challenge": ""}\n',
        ):
            with socket.create_connection(callers[0].getpeername(), 2) as babbler:
                babbler.sendall(output)
        events = list(stream)
        for caller in callers:
            caller.close()
    assert failure(events) is None


def _store(bench):
    """Where the controllers of a bench store their results, and nodes see it."""
    return bench.folder_of_nodes() / "lost"


def _controller(bench, launcher, attempt=1, **fields):
    """A controller in a process of its own; gives it when its workers are in the window of an attempt.

    That of `joined` is a task of a job, and the process of that job is given.
    """
    if launcher == "slurm-step":
        bench._allocate()
    options = {**bench.cluster.options(launcher.partition("-")[0]), **fields.pop("options", {})}
    fields = {**TOY, "topology": f"2n1d@{launcher.partition('-')[0]}", "options": options, **fields}
    script = bench.folder_of_nodes() / "controller.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import signal

            from dlperf_sdk import run
            from dlperf_sdk.hookspecs import hookimpl

            signal.signal(signal.SIGTERM, signal.default_int_handler)  # as the command line does

            class Watch:
                @hookimpl
                def dlperf_run_started(self, run_id):
                    print("run", run_id, flush=True)

                @hookimpl
                def dlperf_step_progress(self, attempt, phase):
                    print(attempt, phase, flush=True)

            run("faulty", "linear", store={str(_store(bench))!r}, observers=[Watch()], **{fields!r})
            """
        )
    )
    command = [sys.executable, str(script)]
    if launcher == "joined":
        controller = bench.srun(2, *command)
    else:
        controller = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    run_id = ""
    for line in controller.stdout:
        run_id = line.split()[1] if line.startswith("run ") else run_id
        if line.strip() == f"{attempt} measure":
            return controller, run_id
    raise AssertionError("it never came so far")


def _signal_controller(bench, launcher, controller, number):
    """Signal the process of a controller; that of `joined` is on the first node."""
    if launcher == "joined":
        (pid,) = bench.cluster.nodes[0].processes("controller.py")
        os.kill(pid, number)
    else:
        controller.send_signal(number)


@pytest.mark.fault_matrix
@pytest.mark.parametrize("launcher", ["ssh", "mpi", "slurm-step", "joined"])
def test_a_killed_controller_takes_its_workers_along(bench, launcher):
    controller, run_id = _controller(bench, launcher, 2, options={"fault": "stubborn-second"}, repeats=2)
    with controller:
        _signal_controller(bench, launcher, controller, signal.SIGKILL)
        started_at = time.monotonic()
    if launcher == "joined":  # Slurm kills what is left of a task: the next agent there removes the folder
        assert not [left for left in bench.left() if "process" in left]
        assert failure(list(bench.events(launcher))) is None
    assert bench.left() == []
    recovered = ResultStore(_store(bench)).recover(run_id)
    kept = sum(attempt.status == "ok" for attempt in recovered.attempts)
    problem = {"kind": "no result", "node": None}
    bench.add_outcome("the controller is killed", launcher, problem, started_at, finished=1, kept=kept)
    assert not list(_store(bench).rglob("result.json"))


@pytest.mark.fault_matrix
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_ctrl_c_stores_the_finished_repeats(bench, launcher):
    """Workers that ignore SIGTERM end, too."""
    fields = {"options": {"fault": "stubborn-second"}, "repeats": 2}
    controller, run_id = _controller(bench, launcher, 2, **fields)
    started_at = time.monotonic()
    _signal_controller(bench, launcher, controller, signal.SIGINT)
    controller.communicate(timeout=120)
    result = ResultStore(_store(bench)).load(run_id)
    assert result.failure is not None
    problem = {"kind": result.failure.kind, "node": result.failure.node}
    kept = len(result.repeats)
    bench.add_outcome("Ctrl-C", launcher, problem, started_at, finished=1, kept=kept)
    assert (problem["kind"], kept) == ("interrupted", 1)


@pytest.mark.fault_matrix
def test_a_job_outlives_its_controller_and_can_be_attached_to(bench):
    controller, run_id = _controller(bench, "slurm", options={"fault": "slow"}, steps=300, repeats=2)
    with controller:
        controller.kill()
        started_at = time.monotonic()
    job = subprocess.run(
        ["squeue", "-h", "-n", f"dlperf-{run_id}", "-o", "%i"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert list(stream.follow_job(job))  # by somebody who has read all of it, and kept nothing
    result = attach(find_job(f"{job}@slurm"), bench.folder / "found")
    assert result.id == run_id
    assert result.failure is None
    assert len(result.repeats) == 2
    problem = {"kind": "none, the job goes on", "node": None}
    bench.add_outcome("the controller is killed", "slurm-job", problem, started_at, finished=2, kept=2)
    assert "\nnumpy==" in result.environment.lock
    assert result.verdict("parity").outcome == "pass", result.verdict("parity")
    assert (bench.folder / "found" / run_id / "result.json").exists()
    until = time.monotonic() + 30
    while jobs.query_job(job)["JobState"] not in jobs.FINAL_STATES and time.monotonic() < until:
        time.sleep(0.2)
    with pytest.raises(Unavailable, match=r"is over \(COMPLETED\)"):  # it has not waited for its `linger`
        find_job(f"{job}@slurm")


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
    message = subprocess.run(
        ["scontrol", "-o", "show", "jobs"], capture_output=True, text=True, check=True
    ).stdout
    return {line.split()[0] for line in message.splitlines() if "JobName=dlperf-" in line}


@pytest.mark.fault_matrix
@pytest.mark.parametrize(("fault", "steps"), [("stubborn-second", 20), ("slow-second", 3000)])
def test_a_job_that_is_cancelled_from_outside(bench, fault, steps):
    """Whether its agents or its workers are the first to end: Slurm may signal both."""
    case = {"framework": "faulty", "options": {"fault": fault}, "steps": steps, "repeats": 2}
    with closing(bench.events("slurm-job", **case)) as stream:
        until_measuring(stream, 2)
        started_at = time.monotonic()
        subprocess.run(["scancel", bench.job()], check=True)
        problem = failure(list(stream))
    bench.add_outcome("the job or allocation is canceled", "slurm-job", problem, started_at, finished=1)
    assert problem["kind"] == "interrupted"
    assert time.monotonic() - started_at < 30


def test_a_job_that_is_cancelled_while_it_waits(bench):
    """Nothing of it has run, and it is not taken for a node that was lost."""
    bench._allocate()
    bench.leave()
    with ThreadPoolExecutor(1) as pool:
        message = pool.submit(lambda: failure(list(bench.events("slurm-job", name="waits"))))
        while not (waiting := _state_of(f"dlperf-{bench.id}waits")):
            time.sleep(0.2)
        assert waiting == ["PENDING"]
        subprocess.run(["scancel", "--me", f"--name=dlperf-{bench.id}waits"], check=True)
        assert message.result(30)["kind"] == "interrupted"


def _state_of(name):
    """The states of the jobs of this name that wait or run."""
    message = subprocess.run(
        ["squeue", "-h", "-n", name, "-o", "%T"], capture_output=True, text=True, check=True
    )
    return message.stdout.split()


@pytest.mark.fault_matrix
@pytest.mark.parametrize(("fault", "steps"), [("stubborn-second", 20), ("slow-second", 3000)])
@pytest.mark.parametrize("shape", ["1n2d", "2n1d"])
def test_an_allocation_that_is_cancelled_from_outside(bench, shape, fault, steps):
    case = {"framework": "faulty", "options": {"fault": fault}, "steps": steps, "repeats": 2}
    with closing(bench.events("slurm-step", shape, **case)) as stream:
        until_measuring(stream, 2)
        started_at = time.monotonic()
        subprocess.run(["scancel", os.environ["SLURM_JOB_ID"]], check=True)
        problem = failure(list(stream))
    bench.add_outcome("the job or allocation is canceled", "slurm-step", problem, started_at, finished=1)
    assert problem["kind"] == "interrupted"


@pytest.mark.fault_matrix
@pytest.mark.parametrize(
    ("fault", "command"),
    [
        ("the job or allocation is canceled", ["scancel"]),
        ("the scheduler's time limit passes", ["scontrol", "update", "EndTime=now+1"]),
    ],
    ids=["canceled", "time limit"],
)
def test_a_job_that_was_joined_and_is_ended_by_slurm(bench, fault, command):
    """Its own processes are signaled, and so the controller is interrupted."""
    fields = {"options": {"fault": "stubborn-second"}, "repeats": 2, "deadlines": {"step": 120.0}}
    controller, run_id = _controller(bench, "joined", 2, **fields)
    started_at = time.monotonic()
    job = bench.job()
    subprocess.run([*command, job if command == ["scancel"] else f"JobId={job}"], check=True)
    controller.communicate(timeout=180)
    result = ResultStore(_store(bench)).load(run_id)
    assert result.failure is not None
    problem = {"kind": result.failure.kind, "node": result.failure.node}
    kept = len(result.repeats)
    bench.add_outcome(fault, "joined", problem, started_at, finished=1, kept=kept)
    assert (problem["kind"], kept) == ("interrupted", 1)


@pytest.mark.fault_matrix
def test_slurms_own_time_limit(bench):
    """Of a job, and of the allocation that a step runs in. Slurm rounds the second that is asked for up to a minute;
    that is long to wait for, so the administrator brings the end nearer. What ends them is the limit all the same."""
    job = {"time_limit": "0:01", "exclusive": False, "sbatch_flags": "-w n1,n2"}
    cases = {}
    with ExitStack() as stack:
        # The job first: once there is an allocation, everything is a step of it.
        for launcher, more in (("slurm-job", job), ("slurm-step", {})):
            if launcher == "slurm-step":
                bench._allocate("--time=0:01")
            fields = {"options": {"fault": "stubborn-second", **more}, "repeats": 2}
            cases[launcher] = bench.events(launcher, framework="faulty", name=launcher, **fields)
            until_measuring(stack.enter_context(closing(cases[launcher])), 2)
        message = subprocess.run(["squeue", "-h", "-o", "%i %l"], capture_output=True, text=True, check=True)
        limits = dict(line.split() for line in message.stdout.splitlines())
        assert list(limits.values()) == ["1:00", "1:00"]
        for number in limits:
            subprocess.run(["scontrol", "update", f"JobId={number}", "EndTime=now+1"], check=True)
        started_at = time.monotonic()
        fault = "the scheduler's time limit passes"
        with ThreadPoolExecutor(len(cases)) as pool:
            ends = pool.map(lambda stream: (failure(list(stream)), time.monotonic()), cases.values())
            for launcher, (message, ended_at) in zip(cases, ends, strict=True):
                since = time.monotonic() - (ended_at - started_at)
                bench.add_outcome(fault, launcher, message, since, finished=1, name=launcher)
                assert message["kind"] == "timeout", (launcher, message)
                assert "time limit" in message["message"], (launcher, message)


def test_campaign_in_one_allocation_continues_after_a_lost_node(bench):
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


@pytest.mark.fault_matrix
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_node_that_another_one_cannot_reach(bench, launcher):
    """Both reach the coordinator; their workers would wait for each other in vain."""
    node = bench.cluster.nodes[1]
    node.run("ip", "route", "add", "prohibit", bench.cluster.nodes[2].address)
    started_at = time.monotonic()
    try:
        problem = failure(list(bench.events(launcher, "3n1d")))
    finally:
        node.run("ip", "route", "del", "prohibit", bench.cluster.nodes[2].address)
    bench.add_outcome("node 1 cannot connect to node 2", launcher, problem, started_at)
    assert (problem["kind"], problem["node"]) == ("unavailable", 1)
    assert "node 1 (n2) cannot connect to node 2 (n3)" in problem["message"]


@pytest.mark.fault_matrix
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_node_with_another_environment(bench, launcher):
    """The same path, another Python behind it."""
    folder, node = bench.cluster.home / f"differs-{launcher}", bench.cluster.nodes[1]
    folder.mkdir()
    node.run("mount", "-t", "tmpfs", "tmpfs", str(folder))
    (folder / "python").symlink_to(sys.executable)
    node.run("ln", "-s", "/usr/bin/python3", str(folder / "python"))
    started_at = time.monotonic()
    try:
        problem = failure(list(bench.events(launcher, "3n1d", python=str(folder / "python"))))
    finally:
        node.run("umount", str(folder))
    bench.add_outcome("node 1 has another environment", launcher, problem, started_at)
    assert (problem["kind"], problem["node"]) == ("environment", 1)
    assert problem["message"].startswith("Node 1 (n2) has ")
    assert "All nodes of a case must have the same environment." in problem["message"]


def test_a_clock_that_is_off_is_noted_with_its_node(bench, tmp_path):
    """No window is timed by two clocks, so the case is measured; the result says which node it is."""
    folder, node, ahead = bench.cluster.home / "clock", bench.cluster.nodes[1], bench.cluster.home / "ahead"
    folder.mkdir()
    (folder / "python").symlink_to(sys.executable)
    ahead.write_text(AN_HOUR_AHEAD)
    ahead.chmod(0o755)
    node.run("mount", "-t", "tmpfs", "tmpfs", str(folder))
    node.run("cp", str(ahead), str(folder / "python"))
    options = {**bench.cluster.options("ssh"), "agent_python": str(folder / "python")}
    try:
        result = run("numpy", "linear", topology="3n1d@ssh", options=options, store=tmp_path / "store", **TOY)
    finally:
        node.run("umount", str(folder))
    assert result.ok, result.failure
    (note,) = [note for note in result.notes if "clock" in note]
    assert re.fullmatch(r"The clock of node 1 \(n2\) is \+3(600|599)\.\d s off node 0's\.", note), note


def test_a_hosts_file_and_whom_to_log_in_as(bench):
    file = bench.folder / "hosts"
    file.write_text("# mine\nroot@n3 slots=8\n\nroot@n1\n")
    options = {"hosts": "", "hostfile": str(file)}
    events = list(bench.events("ssh", options=options))
    assert failure(events) is None
    nodes = next(event for event in events if event["event"] == "agents-ready")["nodes"]
    assert [node["host"] for node in nodes] == ["n3", "n1"]


@pytest.mark.fault_matrix
@pytest.mark.parametrize("launcher", ["ssh", "mpi"])
def test_unknown_host_is_a_typed_failure(bench, launcher, monkeypatch):
    """By the words of real ssh, which is what mpirun calls as well unless it is told otherwise."""
    monkeypatch.setenv("OMPI_MCA_plm_rsh_agent", f"ssh -F {bench.cluster.ssh_config}")
    for hosts, node in (("nowhere,n1", 0), ("n1,nowhere", 1)):
        started_at = time.monotonic()
        problem = failure(list(bench.events(launcher, name=f"{node}", options={"hosts": hosts})))
        bench.add_outcome(
            f"the name of host {node} is unknown", launcher, problem, started_at, name=f"{node}"
        )
        if (launcher, node) == ("ssh", 1):  # its first agent is there, and asks for the way to the second
            assert "no route from this node to 'nowhere'" in problem["message"], problem
            continue
        assert (problem["kind"], problem["node"]) == ("lost-node", node), problem
        assert "Could not resolve hostname nowhere" in problem["message"]
        assert (
            launcher == "ssh" or f"The agent of node {node} (nowhere) was not started" in problem["message"]
        )


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_an_agents_python_that_is_not_there(bench, launcher):
    """One sentence, whatever shells, mpirun and srun make of it."""
    problem = failure(list(bench.events(launcher, options={"agent_python": "/nowhere/python9"})))
    assert problem["kind"] == "unavailable", problem["message"]
    assert re.fullmatch(
        r"/nowhere/python9, which runs the agents, cannot be started on [^:]*: [^:]*\. Name a Python 3\.7 or later "
        r"that is on every node: --set agent_python=PATH\.",
        problem["message"],
    ), problem


def test_a_partition_that_there_is_not(bench):
    with pytest.raises(Unavailable, match="sbatch failed: .*invalid partition specified: nowhere"):
        list(bench.events("slurm-job", options={"partition": "nowhere"}))


@pytest.mark.parametrize("launcher", ["mpi", "slurm-step", "slurm-job"])
def test_a_container_on_every_node(bench, launcher, monkeypatch):
    """What tells an agent its place is in there as well; the bundle comes on standard input as ever."""
    folder = bench.cluster.home / launcher  # not below /tmp, which is each node's own
    folder.mkdir()
    root = root_file_system.make(folder, monkeypatch)
    events = list(
        bench.events(launcher, container=f"podman:{root}", container_mounts=root_file_system.mounts())
    )
    assert failure(events) is None
    nodes = next(event for event in events if event["event"] == "agents-ready")["nodes"]
    assert [node["host"] for node in nodes] == ["n1", "n2"]
    assert {node["virtualisation"]["container"] for node in nodes} == {"podman"}


def test_a_node_that_is_cut_off_for_a_moment(bench):
    """For less than the silence after which it counts as lost: nothing is, through any launcher."""
    node, fields = bench.cluster.nodes[1], {"framework": "faulty", "steps": 800}
    streams = {}
    with ExitStack() as stack:
        for launcher in ("slurm-job", "slurm-step", "ssh", "mpi"):
            job = {"exclusive": False, "sbatch_flags": "-w n1,n2"} if launcher == "slurm-job" else {}
            options = {"fault": "slow", "rank": 1, **job}
            streams[launcher] = bench.events(launcher, name=launcher, options=options, **fields)
            stack.enter_context(closing(streams[launcher]))
            until_measuring(streams[launcher])
        node.cut()
        try:
            time.sleep(4)
        finally:
            node.mend()
        with ThreadPoolExecutor(len(streams)) as pool:
            ends = pool.map(lambda stream: failure(list(stream)), streams.values())
            assert dict(zip(streams, ends, strict=True)) == dict.fromkeys(streams)


def test_the_mpirun_of_mpich_hands_standard_input_to_one_rank_and_is_refused(bench, tmp_path, monkeypatch):
    """Real hydra, and what speaks against it: one rank is fed, and the others wait for a bundle in vain."""
    hydra = shutil.which(HYDRA)
    if hydra is None:
        pytest.skip(f"MPICH cannot be installed here: there is no {HYDRA}")

    read = "os.read(0, 6) if select.select([0], [], [], 3)[0] else b''"
    code = f"import os, select\nprint(os.environ['PMI_RANK'], {read}, flush=True)"
    command = [hydra, "-n", "2", sys.executable, "-c", code]
    message = subprocess.run(command, input=b"bundle", capture_output=True, timeout=60, check=True)
    assert sorted(message.stdout.splitlines()) == [b"0 b'bundle'", b"1 b''"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mpirun").symlink_to(hydra)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    mpi.is_hydra.cache_clear()
    try:
        options = bench.cluster.options("mpi")
        result = run("numpy", "linear", topology="2n1d@mpi", options=options, store=tmp_path / "s", **TOY)
    finally:
        mpi.is_hydra.cache_clear()
    assert (result.status, result.failure.node) == ("unavailable", None)
    assert "hydra's (MPICH, Intel MPI)" in result.failure.message


def test_run_gives_a_result_through_every_launcher(bench, tmp_path):
    """The front door, with a store and verdicts, inside an allocation."""
    bench._allocate()
    result = run("numpy", "linear", topology="4n1d@slurm", store=tmp_path / "store", **TOY)
    assert result.ok, result.failure
    assert {fact.name: fact.observed for fact in result.facts}["topology"] == "4n1d@slurm"
    assert [node["network"]["interface"] for node in result.hardware] == ["eth0"] * 4
