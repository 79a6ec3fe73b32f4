"""`dlperf verify`, and what `dlperf plan` says of parity."""

from __future__ import annotations

import json

import pytest

from dlperf_sdk.cli.app import main


def test_a_framework_that_follows_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "numpy", "--model", "linear", "--topology", "1n2d"]) == 0
    said = capsys.readouterr()
    assert "float64, shard 1" in said.out
    assert said.out.split()[-1] == "pass"
    assert "held against float64" in said.err


def test_one_object_with_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "numpy", "nothing", "--model", "linear", "--json", "--quiet"]) == 5
    answer = json.loads(capsys.readouterr().out)
    assert answer["exit_code"] == 5
    (found,) = answer["verifications"]
    numpy, nothing = found["rows"]
    assert numpy["outcome"] == numpy["parity"]["outcome"] == "pass"
    assert len(numpy["parity"]["deviations"]) == len(found["losses"][0])
    assert nothing["outcome"] == "not-run"
    assert "no framework named 'nothing'" in nothing["reason"]


def test_nothing_could_be_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "nothing", "--model", "linear"]) == 3
    assert "was not run" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [["--model", "linea"], ["--topology", "zero"], ["--model", "linear", "--case"]]
)
def test_what_cannot_be_understood(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "numpy", *words]) == 2
    assert "Error:" in capsys.readouterr().err


def test_a_plan_says_what_it_will_be_held_to(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "torch", "bert-base", "--topology", "1n2d"]) == 0
    assert "held against float64" in " ".join(capsys.readouterr().out.split())
    assert main(["plan", "torch", "bert-base", "--topology", "1n3d", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parity"].startswith("none: ")
