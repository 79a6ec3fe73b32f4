"""The progress of `run()`: on a terminal, in a notebook, as values, and nowhere else."""

import io
import json
import os
import pty
import subprocess
import sys

import pytest
from jupyter_client.manager import start_new_kernel

from dlperf_sdk import run
from dlperf_sdk.errors import UnknownName, UsageError
from dlperf_sdk.progress.watching import Progress, watching

pytestmark = pytest.mark.long

FIELDS = {"protocol": "quick", "steps": 5, "repeats": 2, "store": None}
PROGRAM = f"from dlperf_sdk import run; run('numpy', 'linear', **{FIELDS!r})"


def test_a_function_is_called_with_the_progress(capsys):
    reports = []
    result = run("numpy", "linear", **FIELDS, progress=reports.append)
    assert result.status == "ok"
    assert all(isinstance(report, Progress) for report in reports)
    assert {"environment", "launch", "start", "done"} <= {report.stage for report in reports}
    assert [report.repeat for report in reports] == sorted(report.repeat for report in reports)
    assert (reports[-1].repeat, reports[-1].repeats, reports[-1].seconds_left) == (2, 2, None)
    after_first = next(report for report in reports if report.stage == "done" and report.repeat == 1)
    assert after_first.seconds_left > 0
    assert capsys.readouterr().err == ""


def test_a_function_that_raises_does_not_fail_the_run():
    def fail(progress):
        raise RuntimeError("no more paper")

    with pytest.warns(RuntimeWarning, match="no more paper"):
        assert run("numpy", "linear", **FIELDS, progress=fail).status == "ok"


def test_nothing_is_shown_without_a_terminal(capsys):
    assert run("numpy", "linear", **FIELDS).status == "ok"
    assert capsys.readouterr() == ("", "")


def test_lines_are_shown_on_request(capsys):
    run("numpy", "linear", **FIELDS, progress=True)
    shown = capsys.readouterr().err
    assert "repeat 2 of 2:" in shown
    assert "\x1b" not in shown


def test_a_terminal_shows_a_live_display():
    controller, terminal = pty.openpty()
    with os.fdopen(controller, "rb", buffering=0) as screen:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            stdin=subprocess.DEVNULL,
            stderr=terminal,
            env={**os.environ, "TERM": "xterm"},
        )
        os.close(terminal)
        shown = io.BytesIO()
        try:
            while chunk := screen.read(65536):
                shown.write(chunk)
        except OSError:  # the terminal's other end is closed
            pass
        assert process.wait() == 0
    assert "repeat 2 of 2:" in shown.getvalue().decode()
    assert b"\x1b[?25h" in shown.getvalue()  # the cursor is visible again


def test_a_notebook_shows_one_cell_that_is_updated():
    manager, client = start_new_kernel(kernel_name="python3", startup_timeout=300)
    try:
        messages = []
        reply = client.execute_interactive(PROGRAM, output_hook=messages.append, timeout=300)
        assert reply["content"]["status"] == "ok", json.dumps(reply["content"], default=str)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    kinds = [message["msg_type"] for message in messages]
    assert kinds.count("display_data") == 1
    assert kinds.count("update_display_data") > 1
    last = [message for message in messages if message["msg_type"] == "update_display_data"][-1]
    assert "repeat 2 of 2:" in last["content"]["data"]["text/html"]
    assert "stream" not in kinds


@pytest.mark.parametrize("progress", ["always", 7, None])
def test_another_value_is_refused(progress):
    with pytest.raises(UsageError, match=r'must be "auto", True, False, or a function'), watching(progress):
        pass


def test_option_passed_as_an_argument_is_explained():
    explained = (
        r"^There is no argument named '(.*)'\. '\1' is an option of {}: give options=\{{'\1': {}\}}\.$"
    )
    with pytest.raises(UnknownName, match=explained.format("linear", 32)):
        run("numpy", "linear", features=32)
    with pytest.raises(UnknownName, match=explained.format("resnet50", 64)):  # resembles batch_size
        run("torch", "resnet50", image_size=64)
