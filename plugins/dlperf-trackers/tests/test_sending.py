"""A tracker that fails, hangs or misbehaves never fails a run. The libraries here are planted, and have faults."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import time
import warnings

import attrs
import psutil
import pytest
from dlperf_trackers import TrackerFailed, TrackerObserver, send, sending
from dlperf_trackers.command import main as track
from dlperf_trackers.sending import TrackerTimedOut
from dlperf_trackers.trackers import TRACKERS

from dlperf_sdk import Registry, run
from dlperf_sdk.errors import DocumentError, StoreError, UnknownName, UsageError

QUICK = {"batch_size": 4, "warmup": 1, "steps": 5, "repeats": 1, "store": None, "progress": False}
FAILING = """
import os, sys
print("noise on standard output")
print("noise on standard error: hunter22", file=sys.stderr)
raise RuntimeError(
    "POST https://me:hunter22@mlflow.example.org: token " + os.environ.get("MLFLOW_TRACKING_TOKEN", "") + "\\nrefused"
)
"""
HANGING = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
time.sleep(600)
"""


@pytest.fixture
def plant(tmp_path, monkeypatch):
    """Return a function that puts a library `mlflow` before the real one, also in child processes."""

    def plant(source):
        folder = tmp_path / "planted"
        folder.mkdir()
        (folder / "mlflow.py").write_text(source)
        monkeypatch.syspath_prepend(folder)
        monkeypatch.setenv("PYTHONPATH", str(folder))
        for module in [name for name in sys.modules if name.partition(".")[0] == "mlflow"]:
            monkeypatch.delitem(sys.modules, module)

    return plant


@pytest.mark.parametrize(
    "text, error, message",
    [
        ("mlfow", UnknownName, "Did you mean 'mlflow'"),
        ("prometheus", UsageError, "needs the directory that it writes to: prometheus:DIR"),
        ("mlflow:http://x", UsageError, "takes no value after its name. It reads MLFLOW_TRACKING_URI"),
    ],
)
def test_an_unusable_name_is_explained(result, text, error, message, capsys):
    with pytest.raises(error, match=message.partition(".")[0]):
        send(result, text)
    assert track([text, "x"]) == 2
    assert message in capsys.readouterr().err


def test_a_missing_library_is_named_before_the_run(monkeypatch, tmp_path):
    monkeypatch.setitem(TRACKERS, "mlflow", attrs.evolve(TRACKERS["mlflow"], library="no_such_library"))
    with pytest.raises(UsageError, match=r"not installed: `pip install 'dlperf-trackers\[mlflow\]'` adds it"):
        TrackerObserver(["mlflow"])
    # W&B writes to ./wandb: a directory of that name is not the library
    (tmp_path / "no_such_library").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="not installed"):
        TrackerObserver(["mlflow"])


def test_a_folder_with_campaigns_alone_is_explained(tmp_path, plant, capsys):
    plant("")
    (tmp_path / "campaigns/a-sweep/runs").mkdir(parents=True)
    (tmp_path / "campaigns/a-sweep/campaign.json").write_text("{}")
    for folder, named in (("campaigns", "a-sweep/runs"), (".", "a-sweep")):
        assert track(["mlflow", str(tmp_path / folder)]) == 5
        assert f"such as {tmp_path}/campaigns/{named}." in capsys.readouterr().err


def test_nothing_is_sent_without_the_variable(result, monkeypatch):
    monkeypatch.setattr(sending.subprocess, "Popen", None)
    observer = TrackerObserver()
    observer.dlperf_result(result)
    assert observer.destinations == []


def test_an_unusable_name_in_the_variable_is_a_warning_before_the_run(monkeypatch, plant):
    plant("")
    monkeypatch.setenv("DLPERF_TRACKERS", "mlfow, mlflow,")
    with pytest.warns(RuntimeWarning, match="DLPERF_TRACKERS: There is no tracker named 'mlfow'") as warned:
        observer = TrackerObserver()
    assert len(warned) == 1 and [str(destination) for destination in observer.destinations] == ["mlflow"]


def test_a_failure_is_one_line_without_credentials(result, plant, monkeypatch, capfd):
    plant(FAILING)
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "s3cr3t-t0k3n")
    with pytest.raises(TrackerFailed) as failed:
        send(result, "mlflow")
    assert str(failed.value) == "mlflow: POST https://mlflow.example.org: token MLFLOW_TRACKING_TOKEN refused"
    assert capfd.readouterr() == ("", "")


def test_a_crash_is_a_failure(result, plant):
    plant("import os; os._exit(9)")
    with pytest.raises(TrackerFailed, match="mlflow ended with exit code 9"):
        send(result, "mlflow")


def test_a_file_in_the_current_directory_is_not_the_library(result, plant, tmp_path, monkeypatch):
    plant("raise RuntimeError('the right one')")
    (tmp_path / "mlflow.py").write_text("raise RuntimeError('planted')")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TrackerFailed, match="the right one"):
        send(result, "mlflow")


def test_a_hanging_tracker_and_its_processes_are_killed(result, plant, monkeypatch):
    plant(HANGING)
    started = []

    class Recorded(subprocess.Popen):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self.pid)

    monkeypatch.setattr(sending.subprocess, "Popen", Recorded)
    with pytest.raises(TrackerTimedOut, match=r"mlflow did not answer within 3 s\."):
        send(result, "mlflow", timeout=3)
    (group,) = started
    while running_in(group):  # killed, and not yet gone; pytest's time limit ends this
        time.sleep(0.05)


def running_in(group):
    """List the processes of a group that are not zombies."""
    running = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getpgid(process.pid) == group and process.status() != psutil.STATUS_ZOMBIE:
                running.append(process)
    return running


def test_a_tracker_that_timed_out_is_not_used_again(result, plant, monkeypatch):
    plant(HANGING)
    monkeypatch.setenv("DLPERF_TRACKERS_TIMEOUT", "1")
    observer = TrackerObserver(["mlflow"])
    with pytest.warns(RuntimeWarning, match="Later results are not sent there"):
        observer.dlperf_result(result)
    with warnings.catch_warnings(action="error"):
        observer.dlperf_result(result)


def test_the_time_limit_has_a_default(result, plant, monkeypatch):
    plant(FAILING)
    monkeypatch.setenv("DLPERF_TRACKERS_TIMEOUT", "soon")
    with pytest.warns(RuntimeWarning, match="refused"):
        TrackerObserver(["mlflow"]).dlperf_result(result)


def test_an_interrupted_run_is_not_sent(result, plant):
    plant(FAILING)
    with warnings.catch_warnings(action="error"):
        TrackerObserver(["mlflow"]).dlperf_result(attrs.evolve(result, status="interrupted"))


def test_a_run_survives_its_tracker(plant):
    plant(FAILING)
    with pytest.warns(RuntimeWarning, match="was not sent: mlflow: POST"):
        measured = run("numpy", "linear", observers=[TrackerObserver(["mlflow"])], **QUICK)
    assert measured.ok


def test_a_command_keeps_its_exit_code_and_its_output(plant, tmp_path):
    plant(FAILING)
    options = [
        "--batch-size",
        "4",
        "--warmup",
        "1",
        "--steps",
        "5",
        "--repeats",
        "1",
        "--output",
        str(tmp_path / "out"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "dlperf_sdk", "run", "numpy", "linear", *options, "--json"],
        env={**os.environ, "DLPERF_TRACKERS": "mlflow"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    run_id = json.loads(done.stdout)["id"]
    assert f"Warning: The result {run_id} was not sent: mlflow: POST" in done.stderr
    assert f"`dlperf-track mlflow {tmp_path}/out/{run_id}` sends it." in done.stderr
    assert "hunter22" not in done.stdout + done.stderr


def test_the_installed_observer_sends_nothing_by_itself():
    observer = Registry().load("observers", "trackers")
    assert isinstance(observer, TrackerObserver) and observer.destinations == []


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (b"nonsense", "standard input is not valid JSON"),
        (b"[]", "expected an object"),
        (b'{"schema_version": "1"}', "result"),
        (b"\xff", "UTF-8"),
    ],
)
def test_a_document_on_standard_input_that_is_no_result_is_an_error(
    plant, monkeypatch, capsys, document, reason
):
    plant(FAILING)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(document)))
    assert track(["mlflow", "-"]) == DocumentError.exit_code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Error: ") and reason in line


def test_a_store_that_is_a_url_is_an_error(capsys):
    assert track(["mlflow", "20260101", "--store", "postgresql://host/results"]) == StoreError.exit_code
    assert capsys.readouterr().err.startswith("Error: ")


def test_the_program_sends_what_it_can_read(store, result, plant, capsys):
    plant(FAILING)
    assert track(["mlflow", result.id, "nothing-such", "--store", str(store)]) == 5
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Error: ")]
    assert len(errors) == 2 and "refused" in errors[0] and "nothing-such" in errors[1]


def test_a_value_that_json_lacks_is_a_failed_tracker(plant):
    plant("")
    with pytest.warns(RuntimeWarning, match="was not sent: A result cannot hold 1j"):
        observer = TrackerObserver(["mlflow"])
        result = attrs.evolve(run("numpy", "linear", **QUICK), hardware=({"count": 1j},))
        with pytest.raises(DocumentError, match="A result cannot hold 1j, a complex"):
            send(result, "mlflow")
        observer.dlperf_result(result=result)
