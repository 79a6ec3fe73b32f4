"""The events of a launched job, from its launcher's lines."""

from __future__ import annotations

import gc
import itertools
import json
import sys
import threading
import time
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import pytest
from attrs import evolve

from dlperf_sdk.errors import TimedOut
from dlperf_sdk.interfaces.topology import Topology
from dlperf_sdk.launchers import events, processes, stream_events
from dlperf_sdk.launchers.local import Local
from dlperf_sdk.launchers.slurm import stream

# -- what is said before anybody has been started


class Silent(Topology):
    """A launcher whose stream is these lines."""

    name = "silent"

    def __init__(self, *lines):
        self.lines = lines

    def commands(self, job):
        return (("silent",),)

    def launch(self, job):
        return nullcontext(iter(self.lines))


def test_reason_for_waiting_is_reported_once(job):
    def waiting(text):
        return json.dumps({"event": "waiting", "text": text}).encode()

    launcher = Silent(*map(waiting, ("job 7 waits", "job 7 waits: Priority", "job 7 waits: Priority")))
    *message, last = events.launch_events(launcher, job(None))
    assert [event["text"] for event in message] == ["job 7 waits", "job 7 waits: Priority"]
    assert last["event"] == "ended"


@pytest.mark.parametrize(
    ("lines", "output"),
    [
        ((stream_events.ended_event("x", "y")[:9],), "The agent of node 0 was not started."),
        ((b'{"event": "diagnostics", "text": "no host"}',), "was not started. "),
        ((b'{"event": "diagnostics", "text": "no host"}',), "Last output: no host"),
        ((b'{"event": "heartbeat"}',), "The agent of node 0 ended in the middle of the run."),
    ],
)
def test_an_agent_that_was_never_heard_was_not_started(job, lines, output):
    (last,) = events.launch_events(Silent(*lines), job(None))
    assert (last["status"], last["failure"]["node"]) == ("lost-node", 0)
    assert output in last["failure"]["message"]


@pytest.mark.parametrize(
    ("commands", "node", "output"),
    [
        (1, None, "No agent has sent anything for 0.1 s, the deadline 'start': "),
        (2, 0, "The agent of node 0 has sent nothing for 0.1 s, the deadline 'start'. "),
    ],
)
def test_silent_launcher_names_node_0_only_if_it_starts_nodes_separately(job, commands, node, output):
    ended = threading.Event()

    class Hanging(Silent):
        def commands(self, job):
            return (("silent",),) * commands

        @contextmanager
        def launch(self, job):
            try:
                yield iter(lambda: ended.wait(60) and b"", b"")
            finally:
                ended.set()

    (last,) = events.launch_events(Hanging(), evolve(job(None, 2), start_timeout=0.1))
    assert (last["status"], last["failure"]["node"], last["failure"]["phase"]) == ("lost-node", node, "start")
    assert last["failure"]["message"].startswith(output)


def test_time_limit_exceeded_in_a_queue_is_reported_as_such(job):
    """No worker was ended by it: none was there."""

    class Queued(Local):
        @contextmanager
        def launch(self, job):
            ended = threading.Event()

            def lines():
                yield stream.waiting_event("7", "PartitionNodeLimit")
                ended.wait(60)

            try:
                yield lines()
            finally:
                ended.set()

    with pytest.raises(
        TimedOut, match="before the job was started: Slurm job 7 is waiting: PartitionNodeLimit"
    ):
        list(events.launch_events(Queued(), job(None), time.monotonic() + 1))


def interrupt_at(place):
    """Return a tracer that raises a Ctrl-C before the instruction with this number; and the list of those passed."""
    passed = []

    def instruction(frame, event, _):
        if event == "opcode":
            passed.append(frame.f_code.co_name)
            if len(passed) == place:
                sys.settrace(None)
                raise KeyboardInterrupt
        return instruction

    def call(frame, *_):
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return instruction

    return call, passed


@pytest.fixture
def no_collection():
    """Keep the garbage collector, and the functions that it calls, out of what is traced."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
def test_interruption_while_waiting_for_a_line_is_raised(job):
    """A `Queue` whose lock was being taken back made a RuntimeError of it."""
    line = b'{"event": "note", "text": "here"}'

    def slow():
        yield line
        time.sleep(0.01)  # so that the second line has to be waited for
        yield line

    outcomes = set()
    for place in itertools.count(1):
        launcher = Silent()
        launcher.lines = slow()
        waiting = events.launch_events(launcher, job(None))
        next(waiting)
        tracer, passed = interrupt_at(place)
        before = sys.gettrace()
        sys.settrace(tracer)
        try:
            next(waiting)
        except BaseException as error:
            outcomes.add(type(error))
        finally:
            sys.settrace(before)
        if len(passed) < place:
            break
    assert outcomes == {KeyboardInterrupt}


def test_events_before_the_time_limit_are_kept(job, monkeypatch):
    all_sent, now = threading.Event(), [0.0]

    def lines():
        yield b'{"event": "agents-ready", "nodes": []}'
        yield b'{"event": "attempt-ended", "attempt": 1}'
        all_sent.set()
        yield from iter(threading.Event().wait, None)  # never

    class Busy(Local):
        @contextmanager
        def launch(self, job):
            yield lines()

    monkeypatch.setattr(events, "time", SimpleNamespace(monotonic=lambda: now[0]))
    stream = events.launch_events(Busy(), job(None), deadline=1000.0)
    assert next(stream)["event"] == "agents-ready"
    assert all_sent.wait(60)
    now[0] = 2000.0
    assert next(stream)["event"] == "attempt-ended"
    with pytest.raises(TimedOut):
        next(stream)


def test_a_stream_that_comes_faster_than_it_is_taken_waits(job, monkeypatch):
    """Such as the logs of thousands of ranks; all arrive, and at most so many lines wait."""
    monkeypatch.setattr(events, "_MOST_WAITING", 10_000)
    sent, taken, most = 0, 0, 0

    def lines():
        nonlocal sent, most
        for _ in range(1000):
            sent, most = sent + 1, max(most, sent - taken)
            yield json.dumps({"event": "log", "text": "x" * 1000}).encode()
        yield b'{"event": "ended", "status": "ok", "failure": null}'

    class Fast(Local):
        @contextmanager
        def launch(self, job):
            yield lines()

    for event in events.launch_events(Fast(), job(None)):
        taken += event["event"] == "log"
    assert (sent, taken) == (1000, 1000)
    assert most < 20


def test_after_its_end_a_stream_is_read_and_dropped(job, monkeypatch):
    """Otherwise an agent that writes could not end; the lines before were not taken."""
    monkeypatch.setattr(events, "_MOST_WAITING", 10)
    all_sent = threading.Event()

    def lines():
        for _ in range(1000):
            yield b'{"event": "agents-ready", "nodes": []}'
        all_sent.set()

    class Fast(Local):
        @contextmanager
        def launch(self, job):
            try:
                yield lines()
            finally:
                assert all_sent.wait(60)

    stream = events.launch_events(Fast(), job(None))
    next(stream)
    assert not all_sent.wait(0.1)
    stream.close()


def test_a_long_line_is_a_sign_of_life_before_it_is_complete(tmp_path):
    length = 4 * 1024 * 1024
    program = f"import sys; sys.stdout.write(chr(123) + 'x' * {length} + chr(10))"
    bundle = tmp_path / "bundle"
    bundle.write_bytes(b"")
    with processes.run_commands([[sys.executable, "-c", program]], bundle) as stream:
        *before, line, diagnostics = stream
    assert line == b"{" + b"x" * length
    assert before
    assert set(before) == {stream_events.HEARTBEAT}
    assert b"diagnostics" in diagnostics


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_lines_are_the_same_however_they_are_cut(size):
    text = b"one\n\nthree, which is longer\n" * 20 + b"unfinished"
    buffer = stream_events.LineBuffer()
    parts = [text[start : start + size] for start in range(0, len(text), size)]
    assert [line for part in parts for line in buffer.add(part)] == text.split(b"\n")[:-1]
    assert buffer._parts


def test_a_long_line_is_joined_once():
    """The time is linear: no part is copied again when the next one comes."""
    buffer, parts = stream_events.LineBuffer(), [b"x" * 10, b"y" * 10]
    assert [buffer.add(part) for part in parts] == [[], []]
    assert [*map(id, buffer._parts)] == [*map(id, parts)]


@pytest.mark.parametrize(
    ("lines", "phase"), [([], "start"), ([b'{"event": "agents-ready", "nodes": []}'], None)]
)
def test_a_failure_before_all_agents_have_joined_is_one_of_their_start(job, lines, phase):
    lost = stream_events.ended_event("lost-node", "It is lost.", 1)
    *_, last = events.launch_events(Silent(*lines, lost), job(None))
    assert (last["failure"]["phase"], last["failure"]["node"]) == (phase, 1)
