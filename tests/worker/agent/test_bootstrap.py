"""The program that takes the bundle from standard input."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
import zipfile

import pytest

from dlperf_sdk.launchers import agent_command
from dlperf_sdk.worker.agent import scratch

# -- the program that takes the bundle


def bootstrapped(bundle, size, tmp_path, *words, before=""):
    program = before + agent_command.bootstrap_program()
    command = [sys.executable, "-I", "-S", "-c", program, str(size), *words]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    return subprocess.run(
        command, input=bundle, capture_output=True, check=False, env=environment, timeout=60
    )


def test_a_bundle_is_taken_from_standard_input_unpacked_and_run(tmp_path):
    program = "import os, sys\nprint(sys.argv[1:-1], oct(os.stat(sys.argv[0]).st_mode), sys.stdin.read())\n"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("__main__.py", program)
    bundle = packed.getvalue()
    done = bootstrapped(bundle + b"the rest", len(bundle), tmp_path, "agent", "--node", "1")
    assert done.stdout.decode().strip() == "['agent', '--node', '1', '--scratch'] 0o40700 the rest"
    assert list(tmp_path.iterdir()) == []


AFTER_MAKING = """\
import os, signal, tempfile
make = tempfile.mkdtemp
def mkdtemp(**arguments):
    folder = make(**arguments)
    os.kill(os.getpid(), signal.SIGTERM)
    return folder
tempfile.mkdtemp = mkdtemp
"""
WHILE_REMOVING = """\
import os, shutil, signal
remove = shutil.rmtree
def rmtree(*arguments, **more):
    for number in (signal.SIGTERM, signal.SIGHUP):
        os.kill(os.getpid(), number)
    remove(*arguments, **more)
shutil.rmtree = rmtree
"""


@pytest.mark.parametrize("before", [AFTER_MAKING, WHILE_REMOVING], ids=["after-making", "while-removing"])
def test_no_signal_leaves_the_folder(tmp_path, before):
    """The launcher and the end of standard input may both send one, at any moment."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(
            "__main__.py", "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\nprint('late')\n"
        )
    bundle = packed.getvalue()
    done = bootstrapped(bundle, len(bundle), tmp_path, "agent", "--node", "1", before=before)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_the_folder_of_a_process_that_was_killed_while_it_reads_is_removed_by_the_next(tmp_path, monkeypatch):
    """srun sends the bundle when all agents have started, and kills the others if one does not."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    command = [sys.executable, "-I", "-S", "-c", agent_command.bootstrap_program(), "9", "agent"]
    process = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(tmp_path)}, stdin=subprocess.PIPE)
    with process:
        while not list(tmp_path.glob("dlperf-*/lock")):
            assert process.poll() is None
            time.sleep(0.01)
        scratch.sweep()
        assert list(tmp_path.glob("dlperf-*/lock"))
        process.kill()
    scratch.sweep()
    assert list(tmp_path.iterdir()) == []


def test_file_that_is_not_a_bundle_is_not_executed(tmp_path):
    done = bootstrapped(b"no bundle", 9, tmp_path, "agent", "--node", "1")
    assert "cannot take the bundle: File is not a zip file" in json.loads(done.stdout)["failure"]["message"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("damage", ["content", "method", "flag"])
def test_a_damaged_bundle_is_reported_as_an_event(tmp_path, damage):
    """`zipfile` has another exception for each: of zlib, NotImplementedError, RuntimeError."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("__main__.py", "print(1)\n" * 1000)
    bundle = bytearray(packed.getvalue())
    directory = bundle.index(b"PK\x01\x02")
    if damage == "content":
        bundle[45:55] = b"\xff" * 10
    elif damage == "method":
        bundle[directory + 10] = 99
    else:
        bundle[directory + 8] = bundle[6] = 1
    done = bootstrapped(bytes(bundle), len(bundle), tmp_path, "agent", "--node", "1")
    failure = json.loads(done.stdout)["failure"]
    assert (done.returncode, failure["kind"], failure["node"], failure["phase"]) == (
        1,
        "unavailable",
        1,
        "start",
    )
    assert done.stderr == b""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("node", ["1", "$NODE"])
def test_node_that_cannot_store_the_bundle_sends_an_event(tmp_path, monkeypatch, node):
    monkeypatch.setenv("NODE", "1")
    done = bootstrapped(b"short", 100, tmp_path, "agent", "--node", node)
    event = json.loads(done.stdout)
    assert (done.returncode, event["event"], event["failure"]["kind"], event["failure"]["node"]) == (
        *(1, "ended", "unavailable", 1),
    )
    message = event["failure"]["message"]
    assert "standard input ended 95 bytes before the bundle did. The transfer was cut off" in message
    assert "TMPDIR" not in message
    assert list(tmp_path.iterdir()) == []
