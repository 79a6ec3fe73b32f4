"""MLflow: what its own client reads from a database and from a real server."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import attrs
import pytest
from dlperf_trackers import TrackerFailed, send
from dlperf_trackers.command import main as track
from dlperf_trackers.sending import TrackerTimedOut
from libraries import requires

from dlperf_sdk import Metric
from dlperf_sdk.cli import main
from dlperf_sdk.results.result import Fact

pytestmark = [requires("mlflow", "flask"), pytest.mark.filterwarnings("ignore::Warning:.*")]


@pytest.fixture
def client(tmp_path, monkeypatch):
    """A client of a new database, which `send` uses, too."""
    from mlflow import MlflowClient

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    return MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")


def runs_in(client, name="dlperf"):
    return client.search_runs([client.get_experiment_by_name(name).experiment_id])


def check_run(client, found, result):
    """Check what a client reads of a run against the result."""
    throughput = result.metric("throughput")
    assert found.info.status == "FINISHED" and found.info.run_name == result.spec.label
    assert found.data.params["framework"] == "numpy" and found.data.params["batch_size"] == "4"
    assert found.data.metrics["throughput"] == pytest.approx(throughput.value, rel=1e-12)
    assert found.data.metrics["throughput_low"] == pytest.approx(throughput.low, rel=1e-12)
    assert found.data.metrics["throughput_high"] == pytest.approx(throughput.high, rel=1e-12)
    history = client.get_metric_history(found.info.run_id, "throughput_repeat")
    assert [(metric.step, metric.value) for metric in sorted(history, key=lambda metric: metric.step)] == [
        (step, pytest.approx(value, rel=1e-12)) for step, value in enumerate(throughput.repeats, 1)
    ]
    tags = found.data.tags
    assert {name: tags[f"verdict.{name}"] for name in ("parity", "replicas-equal")} == {
        "parity": "pass",
        "replicas-equal": "pass",
    }
    assert tags["dlperf.id"] == result.id and tags["dlperf.unit.throughput"] == "samples/s"
    assert {"mlflow.user", "mlflow.source.name", "mlflow.source.git.commit"}.isdisjoint(tags)
    assert {file.path for file in client.list_artifacts(found.info.run_id)} == {"report.md", "result.json"}


def test_the_client_reads_what_was_sent(result, client, tmp_path):
    send(result, "mlflow")
    (found,) = runs_in(client)
    check_run(client, found, result)
    report = client.download_artifacts(found.info.run_id, "report.md", str(tmp_path))
    assert "replicas-equal" in Path(report).read_text(encoding="utf-8")


def test_a_result_that_is_sent_again_replaces_its_run(result, client, store, monkeypatch):
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "mine")
    failed = attrs.evolve(result, metrics=(), verdicts=(attrs.evolve(result.verdicts[0], outcome="fail"),))
    send(failed, "mlflow")
    (first,) = runs_in(client, "mine")
    assert first.info.status == "FAILED" and first.data.metrics == {}
    assert track(["mlflow", result.id, "--store", str(store)]) == 0
    (second,) = runs_in(client, "mine")
    assert second.info.run_id != first.info.run_id
    check_run(client, second, result)


def test_a_command_sends_its_result(client, monkeypatch, capfd):
    monkeypatch.setenv("DLPERF_TRACKERS", "mlflow")
    words = ["--batch-size", "4", "--warmup", "1", "--steps", "5", "--repeats", "1", "--output", "out"]
    assert main(["run", "numpy", "linear", *words, "--quiet"]) == 0
    assert "Warning" not in capfd.readouterr().err
    (found,) = runs_in(client)
    assert found.data.params["model"] == "linear"


@pytest.fixture
def server(tmp_path):
    """The address of a real server."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1"]
    places = [
        "--backend-store-uri",
        f"sqlite:///{tmp_path}/server.db",
        "--artifacts-destination",
        str(tmp_path / "art"),
    ]
    with (tmp_path / "server.log").open("w") as log:
        process = subprocess.Popen(
            [*command, *places], stdout=log, stderr=log, start_new_session=True, cwd=tmp_path
        )
        try:
            for _ in range(300):
                assert process.poll() is None, (tmp_path / "server.log").read_text()
                with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/health"):
                    break
                time.sleep(0.5)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def test_a_real_server_takes_it(result, server, monkeypatch):
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    send(result, "mlflow")
    client = MlflowClient(server)
    (found,) = runs_in(client)
    check_run(client, found, result)
    # More than the server takes in one request; the run of the same result is replaced.
    metric = Metric("throughput", "img/s", 1.0, 1.0, 1.0, tuple(range(1, 2101)))
    facts = tuple(Fact(f"option_{number}", "factor", number, None) for number in range(150))
    send(attrs.evolve(result, metrics=(metric,), facts=facts), "mlflow")
    (found,) = runs_in(client)
    assert len(found.data.params) == 150
    history = client.get_metric_history(found.info.run_id, "throughput_repeat")
    assert sorted(point.value for point in history) == list(range(1, 2101))


def test_a_server_that_refuses_is_a_failure_without_the_password(result, monkeypatch):
    with socket.socket() as closed:  # bound, but not listening
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:hunter22@{address}")
        with pytest.raises(TrackerFailed, match="refused") as failed:
            send(result, "mlflow")
    assert "hunter22" not in str(failed.value) and address in str(failed.value)


def test_a_server_that_never_answers_is_left_alone(result, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(TrackerTimedOut, match="within 10 s"):
            send(result, "mlflow", timeout=10)
