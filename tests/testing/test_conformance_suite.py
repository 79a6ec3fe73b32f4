"""The conformance suite itself: what ships passes it, gaps are strict, and `dlperf check` and `new-plugin` work."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from throwaway import distribution

from dlperf_sdk import skeleton
from dlperf_sdk.cli import main
from dlperf_sdk.errors import SpecError, UsageError
from dlperf_sdk.interfaces.framework import EnvironmentSpec, SourceBuild
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.testing import (
    FrameworkConformance,
    MeasurerConformance,
    ModelConformance,
    TopologyConformance,
)
from dlperf_sdk.testing.training import is_loss_of
from dlperf_sdk.testing.worker_half import _list_imported_modules


class TestResNet50(ModelConformance):
    model = "resnet50"
    model_options = {"image_size": 64, "num_classes": 10}


class TestBertBase(ModelConformance):
    model = "bert-base"
    model_options = {"layers": 1, "sequence_length": 16, "predictions_per_sequence": 2}


class TestLinear(ModelConformance):
    model = "linear"


class TestSoftmax(ModelConformance):
    model = "softmax"


class TestLocal(TopologyConformance):
    topology = "local"
    framework, model = "numpy", "linear"


class TestThroughput(MeasurerConformance):
    measurer = "throughput"
    framework, model = "numpy", "linear"


# Each would make the same run to look at, whichever measurer it is: one does for all.
for _name in sorted({*Registry().names("measurers")} - {TestThroughput.measurer}):
    _suite = type(f"Test[{_name}]", (TestThroughput,), {"measurer": _name})
    _suite._cache = TestThroughput._cache
    globals()[_suite.__name__] = _suite


def test_a_measurer_that_changes_the_records_is_caught(monkeypatch):
    class Careless:
        def summarize(self, measured):
            measured.repeats[0].records[0].facts["seen"] = True
            return ()

    suite = TestThroughput()
    monkeypatch.setattr(TestThroughput, "plugin", Careless())
    with pytest.raises(AssertionError, match="changed the records"):
        suite.test_measurement_is_pure()
    TestThroughput._cache.clear()


def test_a_misspelt_effect_of_an_option_is_caught(monkeypatch):
    """Files could set such an option, although it names a program."""
    launcher = type(
        "Launcher", (), {"Options": attrs.make_class("Options", {"shell": attrs.field(default="ssh")})}
    )
    monkeypatch.setattr(TestLocal, "plugin", launcher)
    TestLocal().test_effects_of_options_are_spelt_right()
    shell = attrs.field(default="ssh", metadata={"help": "The program.", "execute": True})
    launcher.Options = attrs.make_class("Options", {"shell": shell})
    with pytest.raises(AssertionError, match="shell: execute"):
        TestLocal().test_effects_of_options_are_spelt_right()


def test_every_check_documents_its_requirement():
    for suite in (FrameworkConformance, ModelConformance, TopologyConformance, MeasurerConformance):
        tests = [getattr(suite, name) for name in dir(suite) if name.startswith("test_")]
        assert len(tests) > 5
        assert [test.__qualname__ for test in tests if not test.__doc__] == []


# -- what the suite decides by


RIGHT = [3.2552, 2.3181, 1.5753, 1.0328]
"""Losses of a small BERT in fp32."""
THREE_OF_FOUR = [3.2503, 2.4586, 1.8089, 1.2961]
"""Its losses on three of the four samples: each is nearest to the right one of its own step."""


@pytest.mark.parametrize(
    ("losses", "precision", "same"),
    [
        (RIGHT, "fp32", [True] * 4),
        ([3.2552, 2.3190, 1.5800, 1.0400], "fp32", [True] * 4),  # rounding that has grown
        (THREE_OF_FOUR, "fp32", [True, False, False, False]),
        (THREE_OF_FOUR, "amp-bf16", [True, True, False, False]),
        (
            [2.3181, 1.5753, 1.0328, 1.0328],
            "amp-bf16",
            [False, False, False, True],
        ),  # those of the step behind
    ],
)
def test_a_loss_of_the_same_step_in_another_run(losses, precision, same):
    assert [is_loss_of(step, loss, RIGHT, precision) for step, loss in enumerate(losses)] == same


@pytest.mark.parametrize(
    ("file", "text", "actual"),
    [
        ("mine/worker/net.py", "from numpy import linalg", ["numpy", "numpy.linalg"]),
        ("mine/worker/net.py", "from . import layers", ["mine.worker", "mine.worker.layers"]),
        ("mine/worker/net.py", "from .layers import Norm", ["mine.worker.layers", "mine.worker.layers.Norm"]),
        ("mine/worker/net.py", "from ..names import ALL", ["mine.names", "mine.names.ALL"]),
        ("mine/worker/__init__.py", "from .rich import more", ["mine.worker.rich", "mine.worker.rich.more"]),
    ],
)
def test_relative_imports_are_followed(file, text, actual):
    assert _list_imported_modules(file, ast.parse(text)) == actual


# -- gaps and failures, as pytest shows them


def test_a_strategy_that_cannot_be_built_here_is_skipped_with_the_reason(monkeypatch):
    class Suite(FrameworkConformance):
        framework = "numpy"
        models = ("linear",)

    spec = EnvironmentSpec(">=3.7", ("toy",), source_builds=(SourceBuild("toy", programs=("toy-compiler",)),))
    monkeypatch.setattr(type(Suite().plugin), "environment", lambda *_: spec)
    pairs = Suite().axes()["pair"]
    assert Suite().values_with_source_builds() == set(pairs)
    with pytest.raises(pytest.skip.Exception, match="toy has to be built.*toy-compiler is not on PATH"):
        Suite().spec_of(pairs[0])


def pytested(tmp_path, **bodies):
    """pytest's exit code and output for a test file with these classes, each a suite of a model."""
    file = tmp_path / "test_mine.py"
    suites = [
        f"class {name}(ModelConformance):\n    model = 'linear'\n{body}" for name, body in bodies.items()
    ]
    file.write_text("\n".join(["from dlperf_sdk.testing import ModelConformance", *suites]))
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        "-rA",
        str(file),
    ]
    # The suites need none of pytest's plugins, which take time to load.
    variables = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path, env=variables)
    return done.returncode, done.stdout


def test_known_gap_with_another_failure_is_not_accepted(tmp_path):
    body = (
        "    known_gaps = {'test_flops_are_positive': 'nobody has counted yet'}\n"
        "    @property\n    def plugin(self):\n"
        "        found = super().plugin\n        found.flops = lambda options: ()\n        return found\n"
    )
    code, output = pytested(tmp_path, TestMine=body)
    assert code == 0, output
    assert "nobody has counted yet" in output


def test_faulty_plugins_fail_with_a_reason(tmp_path):
    """A known gap whose test passes, a gap that names no test, and a failure, which advises and shows the values."""
    passes = "    known_gaps = {'test_options_have_defaults': 'not yet'}\n"
    names_nothing = "    known_gaps = {'test_nothing': 'a typing error'}\n"
    advises = (
        "    @property\n    def plugin(self):\n        from attrs import evolve\n"
        "        found = super().plugin\n        right = found.flops\n"
        "        found.flops = lambda options: tuple(evolve(term, macs=0) for term in right(options))\n"
        "        return found\n"
    )
    code, output = pytested(tmp_path, TestPasses=passes, TestNamesNothing=names_nothing, TestAdvises=advises)
    assert code == 1
    for suite in ("TestPasses", "TestNamesNothing", "TestAdvises"):
        assert re.search(rf"^(FAILED|ERROR) .*::{suite}::", output, re.MULTILINE), output
    assert "[XPASS(strict)] known gap: not yet" in output
    assert "test_nothing, and the suite has no such test" in output
    assert "has 0 multiply-accumulates in 2 passes" in output
    assert "Why it matters: achieved FLOP/s and MFU are made of these" in output
    assert "assert (0 > 0" in output, "assertions are rewritten"


# -- dlperf check


def checked(capsys, *words):
    code = main(["check", *words])
    return code, capsys.readouterr()


@pytest.mark.long
def test_check_prints_a_line_per_check_and_the_running_one(capsys):
    code, output = checked(
        capsys,
        "numpy",
        "--only",
        "canonical",
        "--only",
        "compiler_is",
        "--only",
        "oldest",
        "--set",
        "features=4",
    )
    lines = output.out.splitlines()
    assert code == 0
    assert sum(line.startswith("✓ pass") for line in lines) == 4
    assert any(line.startswith("– skipped") for line in lines)
    assert "the plugin declares no compiler to try" in output.out
    assert lines[-1] == "numpy: 4 passed, 0 failed, 1 skipped"
    running = output.err.splitlines()
    assert len(running) == 5
    assert running[0].startswith("1/5  test_") and running[-1].startswith("5/5  test_")


def test_only_takes_words_in_names_and_no_expressions(capsys):
    code, output = checked(capsys, "numpy", "--only", "canonical or compile")
    assert code == 2
    assert "'canonical or compile' is in the name of none of them" in output.err


@pytest.mark.long
def test_check_skips_and_resumes(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path))
    words = ("numpy", "--only", "imports_nothing", "--only", "refused", "--only", "compiles")
    code, output = checked(capsys, *words, "--skip", "refused", "--resume")
    assert code == 0
    assert "no check of this plugin with the same arguments to resume" in " ".join(output.err.split())
    assert "imports_nothing" in output.out and "refused" not in output.out
    code, output = checked(capsys, *words, "--resume")
    assert code == 0
    assert "imports_nothing" not in output.out and "refused" in output.out
    assert output.out.splitlines()[-1].endswith(" had passed before")
    assert "imports_nothing" in checked(capsys, *words)[1].out  # without --resume all are run
    _, output = checked(capsys, *words, "--batch-size", "2", "--resume")
    assert "imports_nothing" in output.out  # other arguments, another check


def test_check_as_json_and_a_failure_sets_the_exit_code(capsys, tmp_path, monkeypatch):
    code, output = checked(
        capsys,
        "numpy",
        "--only",
        "imports_nothing",
        "--only",
        "out_of_memory_is",
        "--models",
        "linear",
        "--json",
    )
    document = json.loads(output.out)
    assert code == document["exit_code"] == 0
    assert {check["name"] for check in document["checks"]} == {
        "test_worker_half_imports_nothing_of_core",
        "test_out_of_memory_is_distinguished_from_other_errors[linear]",
    }
    entry = {"dlperf_sdk.frameworks": {"missing": "missing_module:Missing"}}
    module = (
        "from dlperf_numpy.framework import NumPy\n"
        "class Missing(NumPy):\n    name = 'missing'\n    trainers = {'linear': 'nowhere.worker:Linear'}\n"
    )
    distribution(tmp_path, "dlperf-missing", entry, {"missing_module": module})
    monkeypatch.syspath_prepend(tmp_path)
    code, output = checked(capsys, "missing", "--only", "declared_names", "--json")
    failed = json.loads(output.out)
    assert code == failed["exit_code"] == 1
    assert failed["counts"] == {"pass": 0, "fail": 1, "skipped": 0}


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["nump"], "Did you mean 'numpy'"),
        (["numpy", "--only", "nothing_like"], "no test to run"),
        (["numpy", "--group", "frames"], "Did you mean 'frameworks'"),
        (["numpy", "--models", "linea"], "Did you mean 'linear'"),
        (["numpy", "--models", "resnet50"], "numpy has no trainer for resnet50"),
        (["numpy", "--model", "linear"], "Did you mean --models?"),
        (["numpy", "--framework", "numpy"], "--framework says nothing about numpy"),
        (["numpy", "--batch-size", "0"], "batch_size is 0"),
        (["numpy", "--python", "/nope"], "there is no such file"),
        (["numpy", "--python", "/etc/passwd"], "does not run as a Python interpreter"),
        (["numpy", "--device", "abc"], "no kind of device named 'abc'"),
        (["numpy", "--device", "tpu"], "does not offer the device 'tpu'"),
        (["numpy", "--set", "feature=3"], "Did you mean 'features'"),
        (["numpy", "--set", "features=many"], "must be a whole number"),
        (["linear", "--batch-size", "3"], "which is one of the models"),
        (["linear", "--set", "feature=3"], "Did you mean 'features'"),
        (["local", "--model", "linea"], "Did you mean 'linear'"),
        (["local", "--model", "resnet50"], "numpy has no trainer for resnet50"),
    ],
)
def test_check_with_invalid_arguments_starts_nothing(capsys, words, output):
    actual, streams = checked(capsys, *words)
    assert (actual, streams.out) == (2, "")
    assert output in " ".join(streams.err.split())
    assert "test_" not in streams.err


def test_the_options_of_check_reach_the_suites(capsys):
    assert checked(capsys, "linear", "--only", "flops", "--set", "features=3")[0] == 0
    code, output = checked(capsys, "flops", "--only", "pure", "--model", "softmax")
    assert code == 0 and "test_measurement_is_pure" in output.out


CHECK = "import sys; from dlperf_sdk.cli import main; sys.exit(main(['check', 'throughput', '--only', 'measurement']))"


@pytest.mark.long
def test_check_reports_unwritable_output():
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", CHECK], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert "Standard output cannot be written: No space left on device" in " ".join(done.stderr.split())
    assert "INTERNALERROR" not in done.stderr and "no test to run" not in done.stderr


@pytest.mark.long
def test_check_continues_when_its_output_is_closed():
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", CHECK], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    assert done.returncode == 0
    assert "Error" not in done.stderr and "INTERNALERROR" not in done.stderr


def test_check_of_a_broken_plugin(capsys, tmp_path, monkeypatch):
    entry = {"dlperf_sdk.frameworks": {"broken": "broken_module:Broken"}}
    distribution(tmp_path, "dlperf-broken", entry, {"broken_module": "raise RuntimeError('as planned')"})
    monkeypatch.syspath_prepend(tmp_path)
    code, streams = checked(capsys, "broken")
    assert code == 3
    assert "as planned" in streams.err


# -- dlperf new-plugin


@pytest.mark.long
def test_a_new_plugin_passes_its_own_lint(tmp_path):
    created = skeleton.write("my-framework", tmp_path)
    assert sorted(
        str(p.relative_to(created.folder)) for p in created.folder.rglob("*") if p.is_file()
    ) == sorted(created.files)
    for words in (["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]):
        done = subprocess.run(
            [sys.executable, "-m", *words], cwd=created.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_new_plugin_fails_only_at_fill_in_methods(tmp_path):
    created = skeleton.write("fresh", tmp_path)
    entry = {"dlperf_sdk.frameworks": {"fresh": "dlperf_fresh.framework:Fresh"}}
    site = created.folder / "src"
    distribution(site, "dlperf-fresh", entry, {})
    script = "import sys; from dlperf_sdk.cli import main; sys.exit(main(['check', 'fresh', '--json']))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    checks = json.loads(done.stdout)["checks"]
    assert done.returncode == 1
    failed = {check["name"]: check["detail"] for check in checks if check["outcome"] == "fail"}
    assert set(failed) == {"test_nothing_is_left_to_fill_in"}, failed
    left = failed["test_nothing_is_left_to_fill_in"]
    for method in (
        "start",
        "synchronize",
        "facts",
        "build",
        "outputs",
        "loss",
        "running_means",
        "assign",
        "read_parameter",
        "forward",
        "update",
        "read_loss",
        "outputs_and_references",
        "observe_settings",
    ):
        assert f" {method}(): " in left
    assert (left.count("resnet50.py"), left.count("bert_base.py")) == (4, 3)
    # What needs a worker is not judged yet, and says why: nothing passes that was not tried.
    unjudged = [
        check for check in checks if check["name"].startswith(("test_trains[", "test_worker_answers"))
    ]
    assert len(unjudged) == 4
    for check in unjudged:
        assert check["outcome"] == "skipped" and "FILL IN: import the framework" in check["detail"]
    passed = {check["name"].partition("[")[0] for check in checks if check["outcome"] == "pass"}
    assert passed >= {
        "test_plugin_loads",
        "test_controller_half_imports_no_framework",
        "test_requirements_are_valid",
        "test_declared_names_exist",
        "test_undeclared_values_are_refused",
        "test_refused_values_have_a_reason",
        "test_worker_half_parses_on_oldest_python",
        "test_worker_half_imports_nothing_of_core",
    }


@given(st.text(max_size=40))
def test_only_names_become_folders(name):
    try:
        package = "dlperf_" + name.replace("-", "_")
        valid = skeleton._NAME.fullmatch(name) is not None and package != "dlperf_sdk"
    except ValueError:
        valid = False
    if valid:
        assert name.isascii() and package.isidentifier()
    else:
        with pytest.raises(SpecError):
            skeleton.write(name, "/nowhere")


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../x", "a/b", "A", "a_b", "a--b", "sdk", "a\n", "-a", "ä"]
    + ["numpy", "linear", "resnet50", "slurm", "throughput"],
)
def test_invalid_plugin_name_is_refused(tmp_path, name):
    with pytest.raises(SpecError):
        skeleton.write(name, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "dlperf-mine").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="already exists"):
        skeleton.write("mine", tmp_path)
    assert not (tmp_path / "elsewhere").exists()


def test_new_plugin_from_the_command_line(tmp_path, capsys):
    assert main(["new-plugin", "mine", "--directory", str(tmp_path), "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (tmp_path / "dlperf-mine" / "pyproject.toml").exists()
    assert len(output["files"]) == 11
    assert main(["new-plugin", "mine", "--directory", str(tmp_path)]) == 2
    assert main(["new-plugin", "mine", "--directory", ""]) == 2
    assert "--directory names nothing" in capsys.readouterr().err
