"""Agents, coordinator and workers, for real: what goes right, and everything that goes wrong."""

from __future__ import annotations

import copy
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from processes import processes_with

from dlperf_sdk.errors import DocumentError
from dlperf_sdk.planning.bundle import build
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.agent_events import repeat_from
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker import lifetime
from dlperf_sdk.worker.agent.agent import Agent
from dlperf_sdk.worker.agent.attempt import Attempt
from dlperf_sdk.worker.agent.coordinator import Coordinator
from dlperf_sdk.worker.agent.worker_process import LONGEST_LOG, WorkerProcess
from dlperf_sdk.worker.processes import TRAINER, Cluster, Process


def ended(events):
    return [event for event in events if event["event"] == "attempt-ended"]


def log_of(events, name):
    return "".join(event["text"] for event in events if event["event"] == "log" and event["name"] == name)


def failure(events):
    assert events[-1]["event"] == "ended"
    return events[-1]["failure"]


_PLAIN: dict[str, list[dict]] = {}


@pytest.fixture
def plain(stream):
    """All events of the plain case on a topology: run once, for all who only read them."""

    def events(topology):
        if topology not in _PLAIN:
            _PLAIN[topology] = stream(topology=topology)
        return _PLAIN[topology]

    return events


@pytest.fixture
def bundle(tmp_path):
    """The request of a case on one device, and its bundle's path."""
    plan = make_plan(RunSpec(framework="numpy", model="linear", batch_size=8), Registry())
    request = plan.request("case", (sys.executable,), {}, {"source": "synthetic"})
    return request, str(build(request, tmp_path / "case.pyz").path)


@pytest.mark.parametrize("topology", ["1n1d", "1n2d", "2n1d", "2n2d"])
def test_every_rank_of_every_repeat_hands_in_a_record(plain, topology):
    events = plain(topology)
    world = int(topology[0]) * int(topology[2])
    assert failure(events) is None
    assert [event["attempt"] for event in ended(events)] == [1, 2]
    for event in ended(events):
        repeat = repeat_from(event)
        assert [record.rank for record in repeat.records] == list(range(world))
        assert [replica.index for record in repeat.records for replica in record.replicas] == list(
            range(world)
        )
        assert len({replica.digest for record in repeat.records for replica in record.replicas}) == 1
        for record in repeat.records:
            assert record.samples == 8 * 20
            assert len(record.step_times) == len(record.data_waits) == 20
            assert sum(record.step_times) <= record.window.seconds
            assert len(record.replicas[0].losses) == 20
            assert len(record.replicas[0].canonical_losses) == 5


def test_repeats_are_new_processes(plain):
    pids = [event["pid"] for event in plain("1n2d") if event["event"] == "worker-started"]
    assert len(pids) == len(set(pids)) == 4


def test_independent_replicas_train_apart(stream):
    repeat = repeat_from(ended(stream(topology="1n2d", strategy="independent", repeats=1))[0])
    assert len({record.replicas[0].digest for record in repeat.records}) == 2


def test_workers_share_the_cores(plain):
    repeat = repeat_from(ended(plain("2n1d"))[0])
    mine = sorted(os.sched_getaffinity(0))
    taken = [tuple(record.facts["cpus"]) for record in repeat.records]
    if len(mine) > 1:
        assert not set(taken[0]) & set(taken[1])
        assert sorted(taken[0] + taken[1]) == mine
    for record in repeat.records:
        assert int(record.facts["thread_variables"]["OMP_NUM_THREADS"]) <= len(record.facts["cpus"])


def test_worker_inherits_only_allowed_variables(stream, monkeypatch):
    monkeypatch.setenv("OMP_SCHEDULE", "static")
    monkeypatch.setenv("KMP_AFFINITY", "compact")
    events = stream(env={"KMP_AFFINITY": None, "KMP_BLOCKTIME": "0"}, repeats=1)
    variables = repeat_from(ended(events)[0]).records[0].facts["thread_variables"]
    assert "OMP_SCHEDULE" not in variables
    assert variables["KMP_AFFINITY"] == "compact"
    assert variables["KMP_BLOCKTIME"] == "0"


@pytest.mark.parametrize("topology", ["1n1d", "1n2d", "2n1d"])
def test_a_worker_killed_in_mid_window(stream, tmp_path, topology):
    started_at = time.monotonic()
    events = stream("faulty", topology=topology, options={"fault": "sigkill"})
    assert time.monotonic() - started_at < 20
    problem = failure(events)
    assert (problem["kind"], problem["rank"], problem["phase"]) == ("crashed", 0, "measure")
    assert "SIGKILL" in problem["message"]
    assert not processes_with(str(tmp_path))


@pytest.mark.parametrize(
    ("fault", "phase", "deadline", "seconds"),
    [
        ("hang-start", "start", "start", 1.0),  # in which the agent has to look at its node as well
        ("hang-step", "measure", "step", 0.4),
        ("hang-stop", "teardown", "teardown", 0.6),
        ("stubborn", "measure", "step", 0.4),
    ],
)
def test_each_phase_has_its_own_deadline(stream, fault, phase, deadline, seconds):
    events = stream("faulty", topology="1n2d", options={"fault": fault}, deadlines={deadline: seconds})
    problem = failure(events)
    assert problem["kind"] == "timeout"
    assert problem["phase"] == phase
    assert f"'{deadline}'" in problem["message"]


def test_an_exception_is_a_record(stream):
    problem = failure(stream("faulty", options={"fault": "exception"}))
    assert (problem["kind"], problem["type"], problem["phase"]) == ("crashed", "RuntimeError", "measure")
    assert "the fault that was asked for" in problem["message"]
    assert "go_wrong" in problem["traceback"]


def test_the_cause_is_named_not_its_consequence(stream):
    """Rank 1 runs out of memory; rank 0 then loses its peer."""
    problem = failure(stream("faulty", topology="1n2d", options={"fault": "out-of-memory", "rank": 1}))
    assert (problem["kind"], problem["rank"]) == ("out-of-memory", 1)


def test_unsupported_in_the_worker(stream):
    problem = failure(stream("faulty", options={"fault": "unsupported"}))
    assert (problem["kind"], problem["message"]) == ("unsupported", "This cannot be done here.")


def test_leaving_without_a_record(stream):
    assert failure(stream("faulty", options={"fault": "exit"}))["kind"] == "invalid-record"


def test_agent_survives_releasing_a_dead_worker(tmp_path, monkeypatch):
    monkeypatch.setattr(lifetime, "children", list)  # those of this process are not the attempt's
    attempt = Attempt(1, str(tmp_path), {}, None, {})
    order = {
        "name": "rank-0",
        "command": [sys.executable, "-c", ""],
        "environment": {},
        "cpus": [],
        "request": "",
    }
    attempt.start(Cluster((), "cpu", "none"), [Process(TRAINER, 0, {}, rank=0)], [order])
    attempt.workers[0].popen.wait()
    attempt.release()
    attempt.end()
    assert [failure["kind"] for failure in attempt.failures()] == ["invalid-record"]


@pytest.mark.parametrize("cut", range(1, 24, 4))
@pytest.mark.parametrize("printed", [str, repr, json.dumps], ids=["value", "repr", "json"])
def test_a_cut_log_keeps_no_end_of_a_secret(tmp_path, cut, printed):
    secret = "s3cret-é-\U0001f511-0123456789"
    worker = WorkerProcess(Process("trainer", 0, {}), "rank-0", str(tmp_path), {}, {"TOKEN": secret})
    worker._log = str(tmp_path / "log")
    shown = printed(secret).encode()
    filler = b"." * (LONGEST_LOG - len(shown) + cut - len(shown))
    (tmp_path / "log").write_bytes(b"x" * 9999 + shown + filler + shown)
    text = worker.log()
    assert "0123456789" not in text
    assert text.rstrip("\"'").endswith("<TOKEN>")
    assert LONGEST_LOG - 200 <= len(text) <= LONGEST_LOG + 200


def test_garbage_on_standard_output_is_a_log(stream):
    events = stream("faulty", options={"fault": "garbage"}, repeats=1)
    assert failure(events) is None
    assert len(ended(events)) == 1
    assert '"event": "ended"' in log_of(events, "rank-0")


def test_not_even_a_daemon_outlives_its_attempt(stream):
    assert failure(stream("faulty", options={"fault": "orphan"}, repeats=1)) is None
    assert not processes_with("dlperf-orphan")


def test_services_are_started_ended_and_never_recorded(stream):
    events = stream("faulty", topology="2n1d")
    assert failure(events) is None
    exits = [exit for event in ended(events) for exit in event["exits"]]
    services = [exit for exit in exits if exit["role"] == "service"]
    assert [exit["node"] for exit in services] == [0, 0]
    assert all(exit["signal"] == "SIGTERM" and exit["rank"] is None for exit in services)
    assert "serving" in log_of(events, "service-0")


def test_logs_follow_the_records_in_bounded_pieces(stream):
    events = stream("faulty", topology="1n2d", options={"fault": "huge-log"}, repeats=1)
    kinds = [event["event"] for event in events]
    first, last = kinds.index("log"), len(kinds) - 1 - kinds[::-1].index("log")
    assert kinds.index("attempt-ended") < first < last < kinds.index("ended")
    assert "logs" not in events[kinds.index("attempt-ended")]
    assert max(len(json.dumps(event)) for event in events if event["event"] == "log") < 256 * 1024
    assert len(log_of(events, "rank-0")) == LONGEST_LOG
    assert log_of(events, "rank-0").endswith("\nthe end of a long log\n")


def test_a_node_may_have_services_only(stream):
    """It serves until the others have handed in their parts, and is then ended."""
    served = {"topology": "2n1d", "strategy": "independent", "options": {"fault": "node-of-services"}}
    events = stream("faulty", repeats=1, **served)
    assert failure(events) is None
    (event,) = ended(events)
    assert [record["node"] for record in event["records"]] == [0]
    assert {exit["node"]: (exit["role"], exit["signal"]) for exit in event["exits"]} == {
        0: ("trainer", None),
        1: ("service", "SIGTERM"),
    }


@pytest.mark.parametrize(
    ("fault", "output"),
    [("server-killed", "was ended by SIGKILL"), ("server-exits", "left with exit code 3")],
)
def test_a_service_that_dies_at_work_is_named(stream, fault, output):
    events = stream("faulty", steps=100_000, options={"fault": fault})
    problem = failure(events)
    assert (problem["kind"], problem["node"], problem["rank"]) == ("crashed", 0, None)
    assert problem["message"].startswith("service-0, which the trainers need, " + output)
    assert [exit["signal"] for exit in ended(events)[0]["exits"]][1:] == ["SIGTERM"]


def test_a_service_may_leave(stream):
    """With exit code 0, as MXNet's scheduler does at the end."""
    events = stream("faulty", options={"fault": "server-leaves"})
    assert failure(events) is None
    assert [exit["code"] for event in ended(events) for exit in event["exits"]] == [0] * 4


def test_an_interpreter_that_is_not_there(stream):
    problem = failure(stream(python="/nowhere/python"))
    assert problem["kind"] == "environment"
    assert "/nowhere/python" in problem["message"]


def test_a_hostile_record_is_refused(plain):
    event = copy.deepcopy(ended(plain("1n1d"))[0])
    event["records"][0]["window"]["start"] = "yesterday"
    with pytest.raises(DocumentError, match="window"):
        repeat_from(event)


def _controller(tmp_path, fault):
    """A controller process of its own, which reports when the workers are in their window."""
    script = tmp_path / "controller.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import sys
            from dlperf_sdk import RunSpec
            from dlperf_sdk.planning.bundle import build
            from dlperf_sdk.interfaces.topology import Job
            from dlperf_sdk.launchers.events import launch_events
            from dlperf_sdk.planning.plan import make_plan
            from dlperf_sdk.registry.plugins import Registry
            from dlperf_sdk.launchers.local import Local
            from pathlib import Path

            options = {{"fault": "{fault}"}}
            spec = RunSpec(framework="faulty", model="linear", topology="2n1d", batch_size=8, options=options)
            plan = make_plan(spec, Registry())
            request = plan.request("case", (sys.executable,), {{}}, {{"source": "synthetic"}})
            bundle = build(request, Path("{tmp_path}/case.pyz"))
            for event in launch_events(Local(), Job("{tmp_path.name}", bundle.path, 2, 1, "cpu")):
                print(event["event"], event.get("phase"), flush=True)
            """
        )
    )
    # With their scratch directory in it, the command lines of workers can be told from others' as well.
    variables = {**os.environ, "TMPDIR": str(tmp_path)}
    return subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=variables)


def _gone(marker, seconds=15.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not processes_with(marker):
            return True
        time.sleep(0.05)
    return False


# Who does not listen is killed, after a while; whoever does need not be waited for.
@pytest.mark.parametrize(("number", "fault"), [(signal.SIGKILL, "stubborn"), (signal.SIGTERM, "hang-step")])
def test_nothing_outlives_a_controller_that_dies(tmp_path, number, fault):
    with _controller(tmp_path, fault) as controller:
        for line in controller.stdout:
            if line.split() == ["progress", "measure"]:
                break
        assert processes_with(str(tmp_path))
        controller.send_signal(number)
        controller.wait(10)
    assert _gone(str(tmp_path)), processes_with(str(tmp_path))


@pytest.mark.parametrize(("node", "fault"), [(0, "stubborn"), (1, "hang-step")])
def test_nothing_outlives_an_agent_that_dies(tmp_path, node, fault):
    with _controller(tmp_path, fault) as controller:
        for line in controller.stdout:
            if line.split() == ["progress", "measure"]:
                break
        agents = subprocess.run(
            ["pgrep", "-f", f"agent --case {tmp_path.name} --node {node}"],
            capture_output=True,
            text=True,
            check=True,
        )
        os.kill(int(agents.stdout.split()[0]), signal.SIGKILL)
        controller.wait(30)
    assert _gone(str(tmp_path)), processes_with(str(tmp_path))


class FakeLink:
    """A link whose orders are given, and which keeps what the agent sends."""

    address = "127.0.0.1"

    def __init__(self, orders):
        self.orders, self.sent = orders, []

    def send(self, message):
        self.sent.append(message)

    def messages(self):
        yield from self.orders


@pytest.mark.parametrize("refused", [1, 2], ids=["listening", "reaching others"])
def test_an_agent_without_threads_names_the_resource_and_its_node(bundle, monkeypatch, tmp_path, refused):
    request, path = bundle
    starts = itertools.count(1)
    start = threading.Thread.start

    def start_or_refuse(thread):
        if next(starts) == refused:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_refuse)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    link = FakeLink([{"do": "reach", "doorbells": []}, {"do": "quit"}])
    assert Agent(request, 3, link, path, str(tmp_path)).serve() == 0
    (event,) = [message for message in link.sent if message["event"] == "exhausted"]
    assert (event["node"], event["failure"]["kind"], event["failure"]["node"]) == (3, "unavailable", 3)
    assert event["failure"]["message"].startswith("The agent of node 3 (")
    assert "ulimit -u" in event["failure"]["message"]


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_a_coordinator_short_of_a_resource_names_it(bundle, monkeypatch, error):
    events = []
    request, _ = bundle
    with socket.create_server(("127.0.0.1", 0)) as listener:
        coordinator = Coordinator(request, listener, "5" * 64, events.append)

        def refuse(timeout):
            raise error

        monkeypatch.setattr(coordinator._roster, "gather", refuse)
        coordinator.run()
    assert events[-1]["failure"]["kind"] == "unavailable"
    assert events[-1]["failure"]["node"] == 0
    assert events[-1]["failure"]["message"].startswith("The coordinator on node 0 ")
