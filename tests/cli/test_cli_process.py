"""The program itself: pipes, terminals, signals, closed streams, and how fast it starts."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from processes import processes_with

from dlperf_sdk.results.store import ResultStore

pytestmark = pytest.mark.long

PROGRAM = [sys.executable, "-m", "dlperf_sdk"]
CASE = ["run", "numpy", "linear", "--batch-size", "4", "--warmup", "1", "--steps", "5", "--repeats", "1"]
LONG = [
    "run",
    "numpy",
    "linear",
    "--batch-size",
    "4",
    "--warmup",
    "1",
    "--steps",
    "200",
    "--repeats",
    "10000",
]


@pytest.fixture(autouse=True)
def isolated_directory(tmp_path, tmp_path_factory, monkeypatch):
    """Every test in a directory of its own; they share a cache, so that a case needs its parity run once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "cache"))
    for name in ("NO_COLOR", "FORCE_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


def dlperf(*words, **options):
    options = {"capture_output": True, "text": True, "timeout": 120, **options}
    return subprocess.run([*PROGRAM, *words], check=False, **options)


def test_the_example_of_the_documentation_with_the_toy_framework():
    done = dlperf(*CASE, "--topology", "1n2d", "--set", "features=8", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["status"] == "ok"
    assert result["spec"]["options"] == {"features": 8}
    integrity = {one["name"]: one["outcome"] for one in result["verdicts"] if one["kind"] == "integrity"}
    assert set(integrity.values()) == {"pass"}
    assert {"as-requested", "parity", "replicas-equal"} <= set(integrity)


# -- what it imports


def imported(*words):
    """The modules that a command line imports."""
    script = (
        "import sys, json; from dlperf_sdk.cli import main; code = main(sys.argv[1:]); "
        "json.dump(sorted(sys.modules), sys.stderr); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=60, check=True
    )
    return json.loads(done.stderr)


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["list"], ["list", "frameworks"], ["run", "--help"]]
)
def test_neither_plugins_nor_anything_heavy_is_imported(words):
    modules = imported(*words)
    heavy = {
        "numpy",
        "torch",
        "jsonschema",
        "psutil",
        "PIL",
        "yaml",
        "dlperf_sdk.api",
        "dlperf_sdk.planning.bundle",
    }
    plugins = [
        name
        for name in modules
        if re.match(r"dlperf_(?!sdk)|dlperf_sdk\.(models|measurers|topologies)\.", name)
    ]
    assert not heavy & set(modules)
    assert plugins == []


def test_list_check_does_import_them():
    assert "dlperf_numpy.framework" in imported("list", "frameworks", "--check")


# -- pipes and closed streams


@pytest.mark.parametrize(
    "words", [["list"], ["--help"], ["describe", "resnet50"], ["describe", "resnet50", "--json"], CASE]
)
def test_a_reader_that_goes_away_ends_nothing(words):
    with subprocess.Popen(
        [*PROGRAM, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        program.stdout.close()
        err = program.stderr.read()
        assert program.wait(60) == 0
    assert "Traceback" not in err
    assert "Error" not in err
    assert "Exception ignored" not in err


@pytest.mark.parametrize("words", [["list"], ["--help"], ["list", "--json"]])
def test_full_disk_is_reported(words):
    with Path("/dev/full").open("w") as full:
        done = dlperf(*words, stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert done.returncode == 2
    assert done.stderr == "Error: Standard output cannot be written: No space left on device.\n"


def test_closed_streams_are_not_replaced_by_other_files():
    line = " ".join(["exec", '"$0"', '"$@"', ">&-", "2>&-", "<&-"])
    done = subprocess.run(["/bin/sh", "-c", line, *PROGRAM, *CASE, "--json"], timeout=60, check=False)
    assert done.returncode == 0
    store = ResultStore("dlperf-results")
    (run_id,) = store.ids()
    assert store.load(run_id).status == "ok"
    for path in (store.directory / run_id).rglob("*"):
        assert path.is_dir() or b"repeat 1 of 1" not in path.read_bytes()


def test_encoding_without_the_symbols_is_supported():
    done = dlperf(*CASE, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert "? pass" in done.stdout


def test_the_output_goes_where_it_belongs():
    done = dlperf(*CASE)
    assert done.stdout.startswith("numpy linear")
    assert "repeat" not in done.stdout.split("Protocol")[0]
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", done.stdout + done.stderr)


# -- on a terminal


def on_a_terminal(*words, columns=80, **variables):
    """Run on a pseudo-terminal: (exit code, all that was written to it)."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", **variables}
    with subprocess.Popen(
        [*PROGRAM, *words], stdin=follower, stdout=follower, stderr=follower, env=environment
    ) as program:
        os.close(follower)
        written = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # the last one on the other side has gone
                break
            if not part:
                break
            written += part
        os.close(leader)
        return program.wait(60), written.decode()


def test_a_terminal_gets_a_live_display_and_colors():
    steps = ["--warmup", "1", "--steps", "20000", "--repeats", "1"]
    code, text = on_a_terminal("run", "numpy", "linear", *steps)
    assert code == 0
    assert "\x1b[?25l" in text  # the cursor is hidden
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # and shown again
    assert "measuring" in text
    assert "━" in text
    assert "\x1b[32m✓ pass" in text
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
    assert "repeat 1 of 1: " in plain
    assert "numpy linear · 1n1d · fp32" in plain


def test_no_color_is_respected():
    code, text = on_a_terminal(*CASE, NO_COLOR="1")
    assert code == 0
    assert not re.search(r"\x1b\[(?:\d+;)*3[0-7](?:;\d+)*m", text)


def test_a_dumb_terminal_gets_plain_lines():
    code, text = on_a_terminal(*CASE, TERM="dumb")
    assert code == 0
    assert "\x1b" not in text
    assert "repeat 1 of 1: " in text


def test_the_table_fits_the_terminal():
    """A report shows the table that the run showed, so one run will do for all widths."""
    for columns, words in ((60, [*CASE, "--quiet"]), (80, ["report"]), (140, ["report"])):
        code, text = on_a_terminal(*words, columns=columns)
        assert code == 0
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)
        assert "numpy linear" in plain
        widths = [len(line) for line in plain.replace("\r", "").splitlines()]
        assert max(widths) <= columns


def test_failure_is_printed_once_on_a_terminal():
    _, text = on_a_terminal("run", "faulty", *CASE[2:], "--set", "fault=sigkill", "--quiet")
    plain = " ".join(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).split())
    assert plain.count("SIGKILL") == 1


# -- signals


def started(*words, finished=1, **options):
    """A long run, as soon as this many repeats have finished: (process, its run's directory)."""
    program = subprocess.Popen([*PROGRAM, *words], start_new_session=True, text=True, **options)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done = list(ResultStore("dlperf-results").directory.glob(f"*/attempts/{finished}/attempt.json"))
        if done:
            return program, done[0].parents[2]
        assert program.poll() is None, "it ended by itself"
        time.sleep(0.05)
    program.kill()
    raise AssertionError("too few repeats finished in a minute")


def gone(run_id, patience=10.0):
    """No process of a run is left, soon."""
    end = time.monotonic() + patience
    while processes_with(run_id) and time.monotonic() < end:
        time.sleep(0.1)
    return processes_with(run_id) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_run_keeps_its_repeats_and_leaves_no_process(number):
    program, directory = started(*LONG, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert processes_with(directory.name), "the agents should be running"
    program.send_signal(number)
    out, err = program.communicate(timeout=60)
    assert program.returncode == 130, err + out
    assert "Traceback" not in out + err
    last = err.splitlines()[-1]
    assert re.fullmatch(
        rf"Interrupted\. \d+ finished repeats? (is|are) kept: dlperf-results/{directory.name}", last
    )
    result = ResultStore("dlperf-results").load(directory)
    assert result.status == "interrupted"
    assert len(result.repeats) >= 1
    assert result.metric("throughput") is not None
    assert gone(directory.name)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_second_signal_does_not_change_the_exit_code(number):
    program, directory = started(*LONG, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    program.send_signal(number)
    for line in program.stderr:
        if line.startswith("Interrupted."):
            break
    program.send_signal(number)
    program.communicate(timeout=60)
    assert program.returncode == 130
    assert gone(directory.name)


def test_an_interrupted_run_with_json_is_one_object():
    program, directory = started(*LONG, "--json", "--quiet", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=60)
    assert program.returncode == 130, err + out
    assert json.loads(out)["status"] == "interrupted"
    assert len(err.splitlines()) == 1
    assert gone(directory.name)


def test_a_killed_run_leaves_no_process_and_can_be_reported():
    program, directory = started(*LONG, finished=2, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    program.kill()
    program.wait(10)
    assert gone(directory.name, 30)
    done = dlperf("report", directory.name)
    assert done.returncode == 5
    assert re.search(r"\d+ repeats had finished", done.stdout)


def test_ctrl_c_on_a_terminal_shows_the_cursor_again():
    leader, follower = pty.openpty()

    # Somebody has to make the terminal its own before Ctrl-C means anything on it.
    script = (
        "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    program = subprocess.Popen(
        [sys.executable, "-c", script, *PROGRAM, *LONG],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm-256color"},
    )
    os.close(follower)
    written, pressed, end = b"", False, time.monotonic() + 60
    while time.monotonic() < end:
        try:
            part = os.read(leader, 65536)
        except OSError:
            break
        written += part
        if b"repeat 2 of" in written and not pressed:
            os.write(leader, b"\x03")
            pressed = True
    os.close(leader)
    assert program.wait(30) == 130
    text = written.decode()
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    assert "Interrupted." in text
    assert "Traceback" not in text
    (directory,) = ResultStore("dlperf-results").directory.iterdir()
    assert gone(directory.name)
