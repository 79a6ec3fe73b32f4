"""Several values of a field in one command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_fixtures import dlperf, isolated_directory  # noqa: F401 - fixtures
from PIL import Image

from dlperf_sdk.reports.html import render

TINY = ("--protocol", "quick", "--warmup", "1", "--steps", "3", "--repeats", "1")


def specs(out):
    return [case["spec"] for case in json.loads(out)["cases"]]


def test_every_combination_is_a_case(dlperf):
    arguments = ("numpy,torch", "linear", "--batch-size", "2,4", "--topology", "1n1d,1n2d", "--seed", "3")
    code, out, _ = dlperf("plan", *arguments, "--json")
    assert code == 0
    chosen = [(spec["framework"], spec["batch_size"], spec["topology"]) for spec in specs(out)]
    assert chosen == [
        (framework, size, shape)
        for framework in ("numpy", "torch")
        for shape in ("1n1d", "1n2d")
        for size in (2, 4)
    ]
    assert {spec["seed"] for spec in specs(out)} == {3}


def test_a_combination_that_cannot_run_is_listed_with_its_reason(dlperf):
    out = dlperf("plan", "numpy", "linear", "--precision", "fp32,tf32", "--json")[1]
    assert [case["skipped"] is None for case in json.loads(out)["cases"]] == [True, False]


def test_a_plan_without_a_file_has_no_column_for_its_lines(dlperf, tmp_path):
    out = dlperf("plan", "numpy", "linear", "--precision", "fp32,tf32", "--batch-size", "2,4")[1]
    assert [line.split() for line in out.splitlines() if line.split()[:1] == ["case"]] == [
        ["case"],
        ["case", "why"],
    ]
    file = tmp_path / "campaign.yaml"
    file.write_text("name: it\nfields: {framework: numpy, model: linear}\naxes: {batch_size: [2, 4]}\n")
    assert f"{file.name}:" in dlperf("plan", str(file))[1]


def test_options_have_several_values_unless_they_are_text(dlperf):
    words = ("--set", "features=4,8", "--set", "hosts=a,b", "--topology", "1n1d@ssh")
    code, out, _ = dlperf("run", "numpy", "linear", *words, "--dry-run", "--json")
    assert code == 0
    options = [spec["options"] for spec in specs(out)]
    assert options == [{"features": 4, "hosts": "a,b"}, {"features": 8, "hosts": "a,b"}]


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("synthetic,synthetic-host,zmq", ["synthetic", "synthetic-host", "zmq"]),
        ("images:a,b,synthetic", ["images:a,b", "synthetic"]),
        ("images:a,images:b", ["images:a", "images:b"]),
    ],
)
def test_data_sources_are_swept_and_commas_in_folders_are_kept(dlperf, isolated_directory, text, sources):
    for name in ("a", "b", "a,b"):
        (Path(name) / "class").mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(Path(name) / "class" / "1.jpg")
    code, out, _ = dlperf("plan", "torch", "resnet50", "--data", text, "--json")
    assert code == 0
    actual = [spec["data"].replace(f"{Path.cwd()}/", "") for spec in specs(out)]
    assert sorted(actual) == sorted(sources)


def test_a_spec_file_takes_several_values_by_flags(dlperf, tmp_path):
    (tmp_path / "case.toml").write_text('framework = "numpy"\nmodel = "linear"\nbatch_size = 2\n')
    code, out, _ = dlperf("plan", "case.toml", "--batch-size", "4,8", "--json")
    assert (code, [spec["batch_size"] for spec in specs(out)]) == (0, [4, 8])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("plan", "numpy", "linear", "--batch-size", "2,,4"), "--batch-size is '2,,4'"),
        (("plan", "numpy", "linear", "--steps", "2,4"), "--steps is '2,4'"),
        (("plan", "numpy,torhc", "linear"), "Did you mean 'torch'?"),
        (("plan", "numpy", "linear", "--batch-size", "2,4", "--files"), "one value of each field"),
        (("bundle", "numpy", "linear", "--batch-size", "2,4", "-o", "x.pyz"), "batch_size has 2 values"),
        (("run", "numpy", "linear", "--batch-size", "2,4", "--redact"), "dlperf report DIR --redact"),
        (("run", "numpy", "linear", "--dry-run", "--redact"), "--redact omits names from results"),
    ],
)
def test_invalid_combinations_are_refused(dlperf, words, message):
    code, out, err = dlperf(*words)
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())


@pytest.mark.long
def test_the_results_are_one_table_and_a_report(dlperf, tmp_path):
    code, out, err = dlperf("run", "numpy", "linear", "--batch-size", "2,4", *TINY, "--output", "results")
    assert code == 0, err
    assert "b2" not in out and "2 ok" in " ".join(out.split())
    (directory,) = (tmp_path / "results").iterdir()
    assert len(list((directory / "runs").iterdir())) == 2
    assert "report.html" in err
    assert (directory / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_without_the_extra_the_command_for_the_report_is_named(dlperf, tmp_path, monkeypatch):
    monkeypatch.setattr(render, "_NEEDED", ("no_such_module",))
    code, _, err = dlperf("run", "numpy", "linear", "--batch-size", "2,4", *TINY, "--output", "results")
    assert code == 0
    (directory,) = (tmp_path / "results").iterdir()
    assert not (directory / "report.html").exists()
    assert f"dlperf report {directory.relative_to(tmp_path)} -o report.html" in " ".join(err.split())
