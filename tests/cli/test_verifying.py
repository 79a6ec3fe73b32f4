"""`dlperf verify`, and what `dlperf plan` says of parity."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from throwaway import distribution

from dlperf_sdk import environments
from dlperf_sdk.cli.app import main
from dlperf_sdk.errors import EnvironmentFailed
from dlperf_sdk.execution import verification


def test_a_framework_that_follows_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "numpy", "--model", "linear", "--topology", "1n2d"]) == 0
    captured = capsys.readouterr()
    assert "float64, shard 1" in captured.out
    assert captured.out.split()[-1] == "pass"
    assert "compared with float64" in captured.err


def test_the_environment_is_looked_for_where_the_case_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    requested = []

    def prepare(*_: Any, inside: tuple[str, ...], python: str, **__: Any) -> None:
        requested.append((*inside[:2], python))
        raise EnvironmentFailed("Enough is known.")

    monkeypatch.setattr(environments, "prepare", prepare)
    actual = verification.verify(["numpy"], "linear", container="podman:numpy", python="/only/in/there")
    assert requested == [("podman", "run", "/only/in/there")]
    assert actual[0].rows[0].reason == "Enough is known."


CRASHING = """
from dlperf_numpy import worker


class Linear(worker.Linear):
    def step(self, batch):
        raise ValueError("as planned")


class Softmax(worker.Softmax):
    def step(self, batch):
        print("the last words", flush=True)
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
"""
CONTROLLER = """
from dlperf_numpy.framework import NumPy


class Crashing(NumPy):
    name = "crashing"
    trainers = {"linear": "crashing_worker:Linear", "softmax": "crashing_worker:Softmax"}
    packages = ("dlperf_numpy",)
"""


@pytest.fixture
def crashing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A framework whose workers crash."""
    entry = {"dlperf_sdk.frameworks": {"crashing": "crashing_controller:Crashing"}}
    modules = {"crashing_controller": CONTROLLER, "crashing_worker": CRASHING}
    distribution(tmp_path, "dlperf-crashing", entry, modules)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A framework that cannot be loaded."""
    entry = {"dlperf_sdk.frameworks": {"broken": "broken_controller:Broken"}}
    distribution(tmp_path, "dlperf-broken", entry, {"broken_controller": "raise RuntimeError('as planned')"})
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("broken")
def test_one_object_with_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "numpy", "broken", "numpy", "--model", "linear", "--json", "--quiet"]) == 5
    answer = json.loads(capsys.readouterr().out)
    assert answer["exit_code"] == 5
    (actual,) = answer["verifications"]
    numpy, broken = actual["rows"]
    assert numpy["outcome"] == numpy["parity"]["outcome"] == "pass"
    assert len(numpy["parity"]["deviations"]) == len(actual["losses"][0])
    assert broken["outcome"] == "not-run"
    assert "as planned" in broken["reason"]


@pytest.mark.usefixtures("broken")
def test_nothing_could_be_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "broken", "--model", "linear"]) == 3
    assert "was not run" in capsys.readouterr().out


@pytest.fixture
def idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A framework without any model."""
    entry = {"dlperf_sdk.frameworks": {"idle": "idle_controller:Idle"}}
    module = CONTROLLER.replace("Crashing", "Idle").replace('"crashing"', '"idle"')
    module = "".join(line for line in module.splitlines(keepends=True) if "trainers" not in line)
    distribution(tmp_path, "dlperf-idle", entry, {"idle_controller": module + "    trainers = {}\n"})
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("crashing")
def test_a_worker_that_crashed_is_heard(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "crashing", "--model", "linear", "--json", "-q"]) == 1
    (actual,) = json.loads(capsys.readouterr().out)["verifications"]
    output = actual["rows"][0]["parity"]["traceback"]
    assert output.startswith("Traceback") and "crashing_worker.py" in output
    assert main(["verify", "crashing", "--model", "linear", "-q"]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "ValueError: as planned (--debug shows all that the worker said)" in shown
    assert "Traceback" not in shown
    assert main(["verify", "crashing", "--model", "softmax", "-q", "--debug"]) == 1
    shown = capsys.readouterr().out
    assert "SIGKILL" in shown and "the last words" in shown


@pytest.mark.usefixtures("crashing")
@pytest.mark.parametrize("words", [[], ["--json"]])
def test_interruption_keeps_finished_frameworks(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = verification.environments.prepare

    def interrupted(framework: str, *args: Any, **kwargs: Any) -> Any:
        if framework == "crashing":
            raise KeyboardInterrupt
        return prepare(framework, *args, **kwargs)

    monkeypatch.setattr(verification.environments, "prepare", interrupted)
    assert main(["verify", "numpy", "crashing", "--model", "linear", *words]) == 130
    captured = capsys.readouterr()
    assert "Interrupted" in captured.err
    if words:
        answer = json.loads(captured.out)
        assert answer["exit_code"] == 130
        assert [row["framework"] for row in answer["verifications"][0]["rows"]] == ["numpy"]
    else:
        assert captured.out.split()[-1] == "pass"


@pytest.mark.usefixtures("idle")
@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["numpy", "--model", "linea"], "Did you mean 'linear'"),
        (["nump"], "Did you mean 'numpy'"),
        (["numpy", "nump"], "Did you mean 'numpy'"),
        (["numpy", "--topology", "zero"], "zero"),
        (["numpy", "--topology", "1n1d@slrm"], "Did you mean 'slurm'"),
        (["numpy", "--model", "linear", "--case"], "--case"),
        (["numpy", "--model", "linear", "--case", "smal"], "Did you mean 'small'"),
        (["numpy", "--case", "smal"], "Did you mean 'small'"),
        (["numpy", "--precision", "fp23"], "Did you mean 'fp32'"),
        (["numpy", "--compiler", "xlaa"], "Did you mean 'xla'"),
        (["numpy", "--strategy", "all_reduc", "--topology", "1n2d"], "Did you mean 'all_reduce'"),
        (["numpy", "--layout", "nhw"], "Did you mean"),
        (["numpy", "--device", "cpuu"], "Did you mean 'cpu'"),
        (["numpy", "--python", "/nope"], "there is no such file"),
        (["idle"], "idle implement none of the models"),
    ],
)
def test_invalid_arguments_start_nothing(
    words: list[str], output: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification.environments, "prepare", lambda *_, **__: pytest.fail("it was started"))
    assert main(["verify", *words]) == 2
    streams = capsys.readouterr()
    assert streams.out == "", "no table of nothing"
    assert "Error:" in streams.err and output in " ".join(streams.err.split())


def test_plan_states_the_reference_of_parity(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "torch", "bert-base", "--topology", "1n2d"]) == 0
    assert "compared with float64" in " ".join(capsys.readouterr().out.split())
    assert main(["plan", "torch", "bert-base", "--topology", "1n3d", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parity"].startswith("none: ")
