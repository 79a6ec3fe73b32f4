"""Accepting connections: strangers are bounded in number and time, and never end it."""

from __future__ import annotations

import os
import queue
import resource
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack

import pytest

from dlperf_sdk.worker.agent import admission, link

SECRET = "5" * 64


@pytest.fixture
def door():
    """A listener, its admission, and a queue of the admitted links."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        admitted = queue.Queue()
        accepting = admission.Admission(listener, SECRET, 4, admitted.put)
        yield listener.getsockname(), accepting, admitted


def joins(address, admitted):
    """Connect as an agent, and close both ends."""
    agent = link.connect(address, SECRET, 60)
    admitted.get(timeout=60).close()
    agent.close()


def test_excess_unauthenticated_peers_are_closed_oldest_first(door):
    address, accepting, admitted = door
    accepting.start()
    with ExitStack() as stack:
        strangers = [
            stack.enter_context(socket.create_connection(address, 60))
            for _ in range(admission.MOST_UNPROVEN + 10)
        ]
        for stranger in strangers[:10]:
            received = b""
            while data := stranger.recv(4096):  # the challenge, then the end
                received += data
            assert received.endswith(b"\n")
        assert len(accepting._unproven) <= admission.MOST_UNPROVEN
        joins(address, admitted)
    assert accepting.shortage == ""


def test_a_lack_of_descriptors_does_not_end_accepting(door, monkeypatch):
    address, accepting, admitted = door
    real, refusals = accepting._listener, iter([OSError(24, "Too many open files")] * 3)

    class Exhausted:
        def accept(self):
            for error in refusals:
                raise error
            return real.accept()

        def fileno(self):
            return real.fileno()

    accepting._listener = Exhausted()
    accepting.start()
    joins(address, admitted)
    assert "Too many open files" in accepting.shortage
    assert "ulimit -n" in accepting.shortage


def test_a_lack_of_threads_does_not_end_accepting(door, monkeypatch):
    address, accepting, admitted = door
    accepting.start()
    start, refusals = threading.Thread.start, iter([1, 2])

    def refuse(thread):
        if next(refusals, None):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(3):
        joins(address, admitted)
    assert next(refusals, None) is None


def test_agent_closed_as_the_oldest_never_joins(door):
    """Its proof was checked, but it had been closed meanwhile: it must try again, not wait for orders."""
    address, accepting, admitted = door
    accepting._withdraw = lambda connection: False
    accepting.start()
    with pytest.raises(ConnectionRefusedError):
        link.connect(address, SECRET, 60)
    assert admitted.empty()


FLOOD = """
import queue, resource, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (128, min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
from dlperf_sdk.worker.agent import admission
listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
joined = queue.Queue()
admission.Admission(listener, "5" * 64, 200, joined.put).start()
print(listener.getsockname()[1], flush=True)
links = [joined.get() for _ in range(200)]
print("all", flush=True)
input()
"""


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 1024, reason="too few descriptors here")
def test_more_agents_than_the_soft_limit_of_descriptors_join_beside_a_flood(raised_descriptor_limit):
    with (
        subprocess.Popen(
            [sys.executable, "-c", FLOOD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        ) as leader,
        ExitStack() as stack,
    ):  # fmt: skip
        address = ("127.0.0.1", int(leader.stdout.readline()))
        for _ in range(300):
            stack.enter_context(socket.create_connection(address, 60))
        for _ in range(200):
            stack.callback(link.connect(address, SECRET, 60).close)
        assert leader.stdout.readline() == "all\n"
        leader.communicate("\n", timeout=60)
    assert leader.returncode == 0


@pytest.fixture
def raised_descriptor_limit():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2048)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
