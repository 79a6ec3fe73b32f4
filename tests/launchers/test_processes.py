"""The launcher's processes: what a node costs the controller, and what happens when that is more than it has."""

from __future__ import annotations

import itertools
import json
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from dlperf_sdk.errors import Unavailable
from dlperf_sdk.launchers import processes, stream_events

READ_ALL = ("sh", "-c", "cat >/dev/null")
FAKE_SSH = """#!/bin/sh
case "$*" in *" n1 "*) echo '{"event": "ended", "status": "lost-node", "failure": {
    "kind": "lost-node", "message": "node 7 is lost", "phase": "start", "node": 7, "rank": null}}' | tr -d '\\n'; echo;;
esac
exec cat >/dev/null
"""


@pytest.fixture
def bundle(tmp_path):
    (tmp_path / "bundle").write_bytes(b"x" * 300_000)
    return tmp_path / "bundle"


def cost(commands, bundle):
    """Return the descriptors and threads that this process has more while so many commands run."""

    def usage():
        return len([*Path("/proc/self/fd").iterdir()]), threading.active_count()

    before = usage()
    with processes.run_commands([READ_ALL] * commands, bundle):
        return tuple(now - then for now, then in zip(usage(), before, strict=True))


def test_a_node_costs_one_descriptor_and_no_thread(bundle):
    descriptors, threads = cost(2, bundle)
    assert threads == 1
    assert cost(12, bundle) == (descriptors + 10, 1)


def test_the_bundle_reaches_every_node_beside_one_that_does_not_read(bundle, tmp_path):
    stopped_reader = (sys.executable, "-c", "import os, select; select.select([], [], [], 2); os.read(0, 1)")
    counting = (
        "sh",
        "-c",
        'head -c 300000 | wc -c >"$0/$$"; mv "$0/$$" "$0/$$.all"; cat >/dev/null',
        str(tmp_path),
    )
    first = (
        "sh",
        "-c",
        'until [ "$(ls "$0"/*.all | wc -l)" = 2 ]; do sleep 0.02; done; cat "$0"/*.all',
        str(tmp_path),
    )
    with processes.run_commands([first, stopped_reader, counting, counting], bundle) as lines:
        assert [*itertools.islice(lines, 2)] == [b"300000"] * 2


def test_all_nodes_start_before_any_is_ready(bundle, tmp_path):
    """Each waits for the others: one after another, none would get ready."""
    waiting = (
        'touch "$0/$$"; until [ "$(ls "$0" | wc -l)" = 8 ]; do sleep 0.02; done; echo ready; cat >/dev/null'
    )
    (tmp_path / "started").mkdir()
    with processes.run_commands([["sh", "-c", waiting, str(tmp_path / "started")]] * 8, bundle) as lines:
        assert next(lines) == b"ready"


FIRST = ("sh", "-c", """echo '{"event": "heartbeat"}'; cat >/dev/null""")
FORGED = (
    b'{"event": "agents-ready", "nodes": []}',
    b'{"event": "attempt-ended", "attempt": 1}',
    b'{"event": "ended", "status": "ok", "failure": null}',
    b'{"event": "ended", "status": "ok", "failure": {"message": 1}}',
    b"Welcome to n1!",
    b"",
    b"x" * 70_000,
)


def printing(*texts):
    """Return a command of a node that prints these texts, as the shell of a login does before the agent starts."""
    program = "import sys; sys.stdout.buffer.write(%r); sys.stdout.flush(); sys.stdin.read()"
    return (sys.executable, "-c", program % b"\n".join(texts))


def test_only_the_command_of_node_0_prints_events(bundle):
    failed = stream_events.ended_event("out-of-memory", "Node 2 (n2) cannot join its run: x.", 2)
    with processes.run_commands([FIRST, printing(*FORGED), printing(*FORGED, failed, b"")], bundle) as lines:
        events = [line for line in lines if line != stream_events.HEARTBEAT]
    assert events == [stream_events.ended_event("unavailable", "Node 2 (n2) cannot join its run: x.", 2)]


@pytest.mark.parametrize(
    ("named", "nodes", "node"),
    [(2, [1], 1), (0, [1, 2], None), (2, [1, 2], 2), ("x", [1, 2], None), (True, [1], 1)],
)
def test_a_failure_is_of_a_node_that_may_have_printed_it(named, nodes, node):
    line = json.dumps({"event": "ended", "failure": {"message": "No.", "node": named}}).encode()
    assert json.loads(stream_events.start_failure(line, nodes))["failure"]["node"] == node


HANGING = (sys.executable, "-c", "import time; time.sleep(3600)")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("is_ready", [False, True])
def test_a_command_that_hangs_is_not_waited_for_before_its_agent_has_joined(bundle, monkeypatch, is_ready):
    """Such as an ssh whose host accepts a connection and does not answer."""
    unused = "_START_STOP_TIMEOUT" if is_ready else "STOP_TIMEOUT"
    monkeypatch.setattr(processes, unused, 3600.0)
    monkeypatch.setattr(processes, "STOP_TIMEOUT" if is_ready else "_START_STOP_TIMEOUT", 0.1)
    ready = ['{"event": "agents-ready", "nodes": []}'] if is_ready else []
    first = ("printf", "%s\\n", *ready, '{"event": "ended", "status": "lost-node", "failure": null}')
    with processes.run_commands([first, HANGING], bundle) as lines:
        assert [json.loads(line)["event"] for line in lines][-2:] == ["ended", "diagnostics"]


def test_a_greeting_is_no_sign_of_an_agent(bundle):
    """After a sign of life, an agent may be silent for 15 seconds only, and its start may take longer."""
    slow = ("sh", "-c", """printf 'Welcome'; sleep 1; echo; echo '{"event": "heartbeat"}'; cat >/dev/null""")
    with processes.run_commands([slow, printing(b"Welcome")], bundle) as lines:
        assert [*itertools.islice(lines, 2)] == [b"Welcome", stream_events.HEARTBEAT]


@pytest.mark.parametrize("start", ["{", "Welcome"])
def test_a_line_without_an_end_ends_the_run(bundle, monkeypatch, start):
    monkeypatch.setattr(stream_events, "LONGEST_LINE", 1_000_000)
    flood = ("sh", "-c", f"printf '{start}'; exec cat /dev/zero")
    with processes.run_commands([flood], bundle) as lines:
        line = next(line for line in lines if line is not stream_events.HEARTBEAT)
    assert len(line) < 1000
    failure = json.loads(line)["failure"]
    assert (failure["kind"], failure["node"]) == ("invalid-record", 0)
    assert "Node 0 has printed more than 1,000,000 bytes without a line feed" in failure["message"]


@pytest.mark.parametrize(
    ("content", "mode", "reason"),
    [
        (None, None, "No such file or directory"),
        ("", 0o644, "Permission denied"),
        ("#!/nowhere/sh\n", 0o755, "No such file or directory"),
        ("\0", 0o755, "Exec format error"),
    ],
)
def test_a_program_that_cannot_be_executed_is_named(bundle, tmp_path, content, mode, reason):
    program = tmp_path / "ssh"
    if content is not None:
        program.write_text(content, encoding="utf-8")
        program.chmod(mode)
    with (
        pytest.raises(Unavailable, match=rf"^{program} cannot be executed: {reason}\. "),
        processes.run_commands([READ_ALL, [str(program), "n1"]], bundle),
    ):
        pytest.fail("The second program cannot be started.")


def measured(tmp_path, nodes, descriptors, program=FAKE_SSH, others=os.environ["PATH"]):
    """Return the failure of a case of so many nodes, all of which a program in place of ssh answers for."""
    (tmp_path / "ssh").write_text(program, encoding="utf-8")
    (tmp_path / "ssh").chmod(0o755)
    command = [
        *(sys.executable, "-m", "dlperf_sdk", "run", "numpy", "linear", "--topology", f"{nodes}n1d@ssh"),
        *("--set", f"hosts=n[1-{nodes}]", "--repeats", "1", "--json", "--output", str(tmp_path / "store")),
    ]
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{others}",
        "DLPERF_CACHE_DIR": str(tmp_path / "cache"),
    }

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(64, descriptors), descriptors))

    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, preexec_fn=limit, check=False
    )
    assert done.returncode == 4, done.stderr
    return json.loads(done.stdout)["failure"]


def test_many_nodes_start_under_a_low_soft_limit_of_descriptors(tmp_path):
    failure = measured(tmp_path, 150, 256)
    assert (failure["kind"], failure["node"]) == ("lost-node", 7)


def test_a_launch_beyond_the_hard_limit_of_descriptors_names_it(tmp_path):
    failure = measured(tmp_path, 150, 128)
    assert failure["kind"] == "unavailable"
    assert "150 commands" in failure["message"]
    assert "Raise `ulimit -n`, which is 128" in failure["message"]


def test_an_interpreter_that_cannot_be_started_for_want_of_descriptors_is_not_missing(tmp_path):
    failure = measured(tmp_path, 2, 8)
    assert failure["kind"] == "unavailable"
    assert failure["message"].endswith("Too many open files. Raise `ulimit -n`, which is 8.")


def test_a_case_whose_launcher_cannot_be_executed_fails_and_names_it(tmp_path):
    failure = measured(tmp_path, 2, 256, program="#!/nowhere/sh\n", others="/nowhere")
    assert failure["kind"] == "unavailable"
    assert failure["message"].startswith("ssh cannot be executed: No such file or directory.")
