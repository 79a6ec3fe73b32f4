"""How an agent comes to its run, and what it says where it does not."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import time
import zipfile

import pytest

from dlperf_sdk import RunSpec
from dlperf_sdk.planning.bundle import build
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.worker import network
from dlperf_sdk.worker.agent import preflight, rendezvous

SECRET = "5" * 64


@pytest.fixture
def agent(tmp_path):
    """Start an agent of a case of two nodes, with these words behind it; its directories are made in `tmp_path`."""
    started = []

    def start(*words, start=60.0, **pipes):
        spec = RunSpec(framework="numpy", model="linear", topology="2n1d", deadlines={"start": start})
        request = make_plan(spec, Registry()).request("case", (sys.executable,), {}, {"source": "synthetic"})
        bundle = build(request, tmp_path / "case.pyz")
        started.append(
            subprocess.Popen(
                [sys.executable, str(bundle.path), "agent", *words],
                env={**os.environ, "TMPDIR": str(tmp_path), "NODE": "7"},
                stdout=subprocess.PIPE,
                **pipes,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("case.json", "{", "case.json: Expecting property name"),
        ("case.json", "[]", "case.json is no case"),
        ("request.json", None, "it has no request.json"),
        ("request.json", "[]", "request.json: the request is not a JSON object"),
        ("parity.json", "{", "parity.json: "),
        ("secret", None, "it has no secret"),
    ],
)
def test_a_damaged_bundle_is_named(tmp_path, name, content, reason):
    spec = RunSpec(framework="numpy", model="linear")
    request = make_plan(spec, Registry()).request("case", (sys.executable,), {}, {"source": "synthetic"})
    bundle, folder, out = build(request, tmp_path / "case.pyz"), tmp_path / "folder", tmp_path / "out"
    with zipfile.ZipFile(bundle.path) as archive:
        archive.extractall(folder)
    (folder / name).unlink(missing_ok=True)
    if content is not None:
        (folder / name).write_text(content, encoding="utf-8")
    command = [sys.executable, str(folder), "run", "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 4
    assert f"The bundle is damaged: {reason}" in done.stderr
    assert done.stderr.endswith("; make it again with `dlperf bundle`.\n")
    assert "Traceback" not in done.stderr


def last_event(process):
    message, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    return json.loads(message.splitlines()[-1])


@pytest.mark.parametrize(
    ("words", "node", "why"),
    [
        (("--node", "1", "--hosts", "127.0.0.1,b"), 1, "no coordinator of this run on 127.0.0.1"),
        (
            ("--node", "0", "--hosts", "a,no-such-host.invalid"),
            0,
            "no route from this node to 'no-such-host.invalid'",
        ),
        (("--node", "$NODE", "--hosts", "a,b"), None, "node 7 is not among the 2 nodes, on a,b"),
        (("--node", "$ABSENT", "--hosts", "a,b"), None, "has not set the variable ABSENT"),
        (("--node", "1", "--hosts", "a,b", "--ports", "9-1"), 1, "'9-1' is not a range of ports"),
    ],
)
def test_node_that_cannot_join_sends_the_reason_as_an_event(agent, tmp_path, words, node, why):
    event = last_event(agent(*words, start=0.3))
    assert (event["event"], event["status"]) == ("ended", "unavailable")
    assert (event["failure"]["node"], event["failure"]["phase"]) == (node, "start")
    assert f"({socket.gethostname()}) cannot join its run: " in event["failure"]["message"]
    assert why in event["failure"]["message"]
    assert [path.name for path in tmp_path.iterdir()] == ["case.pyz"]


def test_unknown_name_fails_without_waiting(monkeypatch):
    """Not for as long as a coordinator, which may start late."""
    monkeypatch.setattr(rendezvous, "_RESOLVE_TIMEOUT", 0.0)
    with pytest.raises(OSError, match=r"host name 'no-such-host.invalid' is unknown on this node"):
        rendezvous.connect("no-such-host.invalid", [20000], SECRET, 600)


def test_an_agent_without_its_controller_does_not_wait_for_the_coordinator(agent, tmp_path):
    process = agent("--node", "1", "--hosts", "127.0.0.1,b", "--tether", stdin=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while not any(tmp_path.glob("dlperf-*/lock")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.stdin.close()
    assert process.wait(30) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["case.pyz"]


# -- ports that the user has chosen


def test_a_range_of_ports():
    assert network.port_range("") == range(0)
    assert network.port_range("40000-40001") == range(40000, 40002)


@pytest.mark.parametrize(
    "text", ["40000", "80-90", "40001-40000", "40000-70000", "a-b", "40000-40001-", "-40000-40001"]
)
def test_invalid_port_range_is_refused(text):
    with pytest.raises(ValueError, match="is not a range of ports"):
        network.port_range(text)


def test_only_ports_of_the_range_are_taken():
    among = network.port_range("42000-42015")
    candidates = rendezvous.candidate_ports(SECRET, among)
    assert set(candidates) <= set(among)
    assert len(candidates) == rendezvous.CANDIDATES
    assert sorted(rendezvous.candidate_ports(SECRET, range(42000, 42003))) == [42000, 42001, 42002]
    doorbell = preflight.Doorbell("127.0.0.1", among)
    free = [int(port) for port in network.free_ports("127.0.0.1", 3, among)]
    doorbell.close()
    assert doorbell.port in among
    assert set(free) <= set(among)
    assert doorbell.port not in free
    assert len(set(free)) == 3


def test_a_doorbell_survives_a_shortage_of_descriptors(monkeypatch):
    """Else one such moment would make its node unreachable for all others."""

    class Short(socket.socket):
        failures = 3

        def accept(self):
            if self.failures:
                self.failures -= 1
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return super().accept()

    def listen(address, candidates):
        listener = Short()
        listener.bind((address, 0))
        listener.listen()
        return listener

    monkeypatch.setattr(rendezvous, "listen", listen)
    doorbell = preflight.Doorbell("127.0.0.1")
    with socket.create_connection(("127.0.0.1", doorbell.port), 30.0) as visitor:
        assert visitor.recv(1) == b""
    doorbell.close()


def test_workers_get_ports_outside_the_ephemeral_range():
    """Between a port's choice and its use lie seconds in which others connect, or listen on port 0."""
    given = {int(port) for _ in range(20) for port in network.free_ports("127.0.0.1", 6)}
    assert len(given) > 100  # and nobody who chooses at the same time begins where we did
    assert given <= set(network.USUAL)


def test_address_of_another_machine_has_no_free_ports():
    with pytest.raises(OSError, match="assign requested address"):
        network.free_ports("192.0.2.1", 1)


@pytest.mark.parametrize("index", [0, 3])
def test_port_range_too_short_to_share_is_reported(index):
    """The fourth node of a machine has none of three ports at all."""
    with pytest.raises(OSError, match=rf"6 ports are needed, and {1 - index // 3} may be used"):
        network.free_ports("127.0.0.1", 6, range(40000, 40003)[index::4])


def test_too_few_free_ports_are_reported():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"1 ports are needed, and of {port} to {port} only 0 are free"):
            network.free_ports("127.0.0.1", 1, [port])
