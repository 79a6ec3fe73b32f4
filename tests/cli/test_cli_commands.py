"""The commands, in this process: what they print where, and their exit codes."""

import json
import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise

import cyclopts
import pytest
from cli_fixtures import CASE, ONE, dlperf, isolated_directory, measured, stored  # noqa: F401 - fixtures
from throwaway import distribution

import dlperf_sdk
from dlperf_sdk import api
from dlperf_sdk.cli import EXIT_CODES, app, build_app, doctor, main, mount
from dlperf_sdk.environments import managed, marker
from dlperf_sdk.results.store import ResultStore

# -- help


@pytest.mark.parametrize(
    "words", [[], ["--help"], *([name, "--help"] for name in ("run", "plan", "list", "doctor"))]
)
def test_help_lists_the_exit_codes(dlperf, words):
    code, out, err = dlperf(*words)
    assert (code, err) == (0, "")
    assert " ".join(EXIT_CODES.split()) in " ".join(out.split())


def test_paragraphs_of_help_fill_the_width_of_the_terminal(dlperf, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    prose = dlperf("gate", "--help")[1].partition("╭")[0]
    paragraphs = [paragraph.splitlines() for paragraph in prose.split("\n\n")]
    assert max(map(len, paragraphs)) > 3
    for paragraph in paragraphs:
        for line, following in pairwise(paragraph):
            assert len(line.rstrip()) + 1 + len(following.split()[0]) > 60


def test_all_exit_codes_are_documented():
    assert re.findall(r"\b\d+\b", EXIT_CODES) == ["0", "1", "2", "3", "4", "5", "6", "130"]


def test_version(dlperf):
    assert dlperf("--version") == (0, f"dlperf-sdk {dlperf_sdk.__version__}\n", "")


def test_run_help_gives_each_flag_its_default_and_its_role(dlperf):
    out = dlperf("run", "--help")[1]
    output = re.sub(r"[\s│]+", " ", out)
    for words in (
        "--batch-size N Samples per device",
        "[default: 32]",
        "[default: 1n1d]",
        "--env NAME[=VALUE]",
    ):
        assert words in output
    assert out.index("Workload") < out.index("Factors") < out.index("Context")


# -- bad input


@pytest.mark.parametrize(
    ("words", "code", "output"),
    [
        (["rnu"], 2, "Did you mean 'run'?"),
        (["run"], 2, "FRAMEWORK"),
        (["run", "numpy"], 2, "The model is missing. Write `numpy MODEL`"),
        (["run", "preset:smoke"], 2, "smoke is a preset: `dlperf plan preset:smoke` lists"),
        (["plan", "tf-cnn-2017"], 2, "tf-cnn-2017 is a preset: `dlperf plan preset:tf-cnn-2017` lists"),
        (
            ["run", "numpy", "linear", "more", "words"],
            2,
            "Unexpected arguments: 'more' 'words'. See `dlperf run --help`",
        ),
        (["run", *CASE, "--env", "A=1", "B=hidden"], 2, "Unexpected arguments: 'B=…'"),
        (["run", *CASE, "--env", "B:hidden"], 2, "--env: a name consists of letters"),
        (["run", *CASE, "--batch-siz", "4"], 2, "Did you mean --batch-size?"),
        (["run", "numpy", "linear", "--batch-size", "four"], 2, "four"),
        (["run", "numpy", "linear", "--batch-size", "0"], 2, "batch_size is 0"),
        (["run", "numpy", "linear", "--batch-size", "-3"], 2, "batch_size is -3"),
        (["run", "numpy", "linear", "--topology", "2x8"], 2, "topology is '2x8'"),
        (["run", "numpy", "linear", "--topology", "0n1d"], 2, "topology is '0n1d'"),
        (["run", "nunpy", "linear"], 2, "Did you mean 'numpy'?"),
        (["run", "numpy", "liner"], 2, "Did you mean 'linear'?"),
        (["run", "numpy", "linear", "--set", "feature=3"], 2, "Did you mean 'features'?"),
        (["run", "numpy", "linear", "--precision", "fp23"], 2, "Did you mean 'fp32'?"),
        (["run", "numpy", "linear", "--protocol", "fast"], 2, "no protocol named 'fast'"),
        (["run", "numpy", "linear", "--deadline", "steps=3"], 2, "Did you mean 'step'?"),
        (["run", "numpy", "linear", "--quiet", "-v"], 2, "contradict"),
        (["run", "numpy", "linear", "--precision", "tf32"], 4, "it offers fp32"),
        (["run", "numpy", "linear", "--device", "cuda"], 4, "it offers cpu"),
        (["run", "numpy", "linear", "--python", "/nowhere/python"], 3, "/nowhere/python"),
        (["run", "numpy", "linear", "--output", "/proc/nothing"], 2, "/proc/nothing cannot be written"),
        (["run", "case.toml"], 2, "case.toml cannot be read"),
        (["plan", "numpy", "linear", "--topology", "1n1d@slurn"], 2, "no launcher named 'slurn'"),
        (["list", "framework", "--chek"], 2, "--check"),
        (["list", "frameork"], 2, "Did you mean 'frameworks'?"),
        (["describe"], 2, "Name one plugin"),
        (
            ["describe", "resnet05"],
            2,
            "Did you mean 'resnet50'? Also similar: resnet50-v1. `dlperf list` shows all, by kind.",
        ),
        (["describe", "xyzzy"], 2, "more. `dlperf list` shows all"),
        (["describe", "model", "numpy"], 2, "no model named 'numpy'"),
        (["describe", "numpy", "--set", "a=1"], 2, "--set describes a model"),
        (["describe", "resnet50", "--set", "image_size=0"], 2, "image_size"),
        (["env", "crete"], 2, "Did you mean 'create'?"),
        (["env", "create", "numpi"], 2, "Did you mean 'numpy'?"),
        (["env", "create", "numpy", "--device", "cuda"], 2, "cuda"),
        (["env", "create", "numpy", "--strategy", "horovod"], 2, "no strategy of numpy named 'horovod'"),
        (
            ["env", "create", "tensorflow", "--data", "images-dali"],
            2,
            "no data source of tensorflow named 'images-dali'. Did you mean 'images'?",
        ),
        (["env", "create", "numpy", "--model", "resnet50"], 2, "Known: linear, softmax."),
        (["env", "remove", "nothing"], 2, "no managed environment named 'nothing'"),
        (["validate"], 2, "PATH"),
        (["validate", "nothing.json"], 2, "nothing.json cannot be read"),
        (["report"], 2, "There are no results in dlperf-results yet"),
        (["report", "nothing"], 2, "no run named 'nothing'"),
        (["report", "/nowhere/at/all"], 2, "There is no file or directory /nowhere/at/all"),
        (["rerun", "nothing"], 2, "no run named 'nothing'"),
    ],
)
def test_bad_input_is_one_paragraph_and_its_exit_code(dlperf, words, code, output):
    actual, out, err = dlperf(*words, *(["--quiet"] if words[0] == "run" and code > 2 else []))
    assert actual == code
    assert output in err
    assert "Traceback" not in out + err
    assert len(err.splitlines()) == 1
    assert err.startswith("Error: ")


@pytest.mark.parametrize(
    ("words", "kind", "code"),
    [
        (["run", "numpy", "linear", "--topology", "2x8"], "SpecError", 2),
        (["run", "numpy", "linear", "--batch-siz", "4"], "UsageError", 2),
        (["rnu"], "UnknownName", 2),
        (["list", "frameork"], "UnknownName", 2),
        (["report", "nothing"], "StoreError", 2),
        (["validate", "nothing.json"], "DocumentError", 2),
    ],
)
def test_with_json_an_error_is_one_object(dlperf, words, kind, code):
    actual, out, err = dlperf(*words, "--json")
    error = json.loads(out)["error"]
    assert (actual, error["type"], error["exit_code"]) == (code, kind, code)
    assert error["message"] in err


def test_behind_two_dashes_json_is_a_word(dlperf):
    code, out, _ = dlperf("run", "numpy", "linear", "--", "--json")
    assert (code, out) == (2, "")


def test_nothing_is_started_where_the_output_cannot_be_written(dlperf, tmp_path):
    (tmp_path / "file").write_text("")
    code, out, err = dlperf("run", *CASE, "--output", "file")
    assert (code, out) == (2, "")
    assert "file cannot be written" in err


def test_debug_shows_the_traceback(dlperf):
    err = dlperf("run", "numpy", "linear", "--topology", "2x8", "--debug")[2]
    assert err.startswith("Traceback")
    assert err.splitlines()[-1].startswith("Error: topology")


def test_internal_error_is_reported_as_a_fault_of_dlperf(dlperf, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(api, "dry_run", broken)
    code, _, err = dlperf("plan", "numpy", "linear")
    assert code == 4
    assert err.startswith("Error: ZeroDivisionError: by nothing. This is a fault of dlperf-sdk")
    assert "--debug" in err


def test_output_has_no_terminal_escape_sequences(dlperf):
    err = dlperf("run", "numpy", "linear", "--topology", "\x1b[31m\x07")[2]
    assert "\x1b" not in err
    assert "\x07" not in err


# -- run and plan


def test_plan_shows_processes_commands_files_environment_and_numbers(dlperf):
    code, out, err = dlperf("plan", *CASE, "--topology", "2n1d", "--env", "A=1")
    assert (code, err) == (0, "")
    output = " ".join(out.split())
    for words in (
        "numpy linear · 2n1d · fp32 on cpu",
        "4 per device × 2 devices = 8 in all",
        "16, in 1 tensor",
        "64.00 FLOP per sample",
        "numpy>=1.17",
        ">=3.7",
        "1 warm-up, 5 measured; 2 repeats",
        "--node 1 --hosts",
        "A = (secret)",
    ):
        assert words in output, words
    assert all(len(line) <= 80 for line in out.splitlines())


def test_plan_counts_the_images_of_a_folder(dlperf, tmp_path):
    for path in ("cat/1.jpg", "cat/2.JPEG", "dog/1.jpg", "owl/1.jpg"):
        (tmp_path / "photos" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / path).write_bytes(b"")
    words = ("plan", "torch", "resnet50", "--data", f"images:{tmp_path / 'photos'}")
    code, out, err = dlperf(*words)
    assert (code, err) == (0, "")
    assert "4 images in 3 classes" in " ".join(out.split())
    assert json.loads(dlperf(*words, "--json")[1])["folder"] == "4 images in 3 classes"
    code, _, err = dlperf(*words, "--set", "num_classes=2")
    assert code == 2
    assert "num_classes=3" in err


def test_dry_run_is_plan_and_starts_nothing(dlperf, tmp_path):
    assert dlperf("run", *CASE, "--dry-run", "--json") == dlperf("plan", *CASE, "--json")
    assert not (tmp_path / "dlperf-results").exists()


def test_plan_as_json_holds_the_very_files_of_a_bundle(dlperf, tmp_path):
    from dlperf_sdk import RunSpec
    from dlperf_sdk.planning import bundle
    from dlperf_sdk.planning.plan import make_plan
    from dlperf_sdk.registry.plugins import Registry

    document = json.loads(dlperf("plan", *CASE, "--json")[1])
    created = bundle.build(
        make_plan(RunSpec.from_dict(document["spec"]), Registry()).request(
            "r", ("python",), {}, {"source": "synthetic"}
        ),
        tmp_path / "b.pyz",
    )
    assert {file["name"] for file in document["files"]} == {*created.files, "secret"}
    assert len(document["processes"]) == 1
    assert document["workload"]["global_batch_size"] == 4


def test_run_prints_the_table_and_keeps_a_report(dlperf, tmp_path):
    code, out, err = dlperf("run", *CASE)
    assert code == 0
    assert out.startswith("numpy linear · 1n1d · fp32  ok")
    assert "throughput" in out
    (directory,) = (tmp_path / "dlperf-results").iterdir()
    assert directory.name in out
    report = (directory / "report.md").read_text()
    assert report.startswith("## numpy linear")
    assert "| throughput" in report
    assert "repeat 2 of 2: " in err
    assert "\x1b" not in out + err
    assert "\r" not in out + err


def test_quiet_is_nothing_but_the_table(dlperf):
    code, out, err = dlperf("run", *ONE, "--quiet")
    assert (code, err) == (0, "")
    assert out.startswith("numpy linear")


def test_verbose_names_the_processes(dlperf):
    err = dlperf("run", *CASE, "--topology", "1n2d", "--verbose")[2]
    assert len(re.findall(r"^repeat \d: node 0 started rank-\d as process \d+$", err, re.MULTILINE)) == 4


def test_json_is_the_result_and_nothing_else(dlperf, tmp_path):
    code, out, err = dlperf("run", *CASE, "--json")
    assert code == 0
    result = dlperf_sdk.Result.from_dict(json.loads(out))
    assert result.status == "ok"
    stored = ResultStore(tmp_path / "dlperf-results").load(result.id)
    assert stored == result
    assert "repeat 1 of 2" in err


def test_redact_removes_the_host_from_output(dlperf, tmp_path):
    host = os.uname().nodename
    assert len(host) > 1, "this host has no name that could be left out"
    words = ["run", *ONE, "--redact", "--env", f"WHO={host}"]
    code, out, err = dlperf(*words, "--output", str(tmp_path / "dlperf-results"))
    assert code == 0
    assert str(tmp_path) not in (out + err).replace("\n", "")
    assert not re.search(rf"\b{re.escape(host)}\b", out)
    assert "host-1" in out
    (directory,) = (tmp_path / "dlperf-results").iterdir()
    assert not re.search(rf"\b{re.escape(host)}\b", (directory / "report.md").read_text())
    assert host in (directory / "result.json").read_text()


def test_failed_integrity_verdict_is_exit_code_1_and_reported(dlperf):
    words = ["faulty", *ONE[1:], "--topology", "1n2d", "--set", "fault=drift", "--set", "rank=1"]
    code, out, err = dlperf("run", *words, "--quiet")
    assert code == 1
    assert "failed validation: replicas-equal" in out
    assert re.search(r"^Error: replicas-equal failed, so the number is not valid: .+", err)
    assert "Traceback" not in err


def test_crash_is_exit_code_4_and_reported_on_both_streams(dlperf):
    code, out, err = dlperf("run", "faulty", *CASE[1:], "--set", "fault=sigkill", "--quiet")
    assert code == 4
    assert "failed: crashed" in out
    assert err.startswith("Error: ")
    assert "SIGKILL" in err


def test_the_traceback_of_a_worker_is_shown_on_request(dlperf):
    words = ["run", "faulty", *CASE[1:], "--set", "fault=exception", "--quiet"]
    assert "Traceback" not in dlperf(*words)[2]
    code, out, err = dlperf(*words, "--debug", "--json")
    assert code == 4
    assert "the fault that was asked for" in json.loads(out)["failure"]["traceback"]
    assert "Traceback" in err


def test_rerun_measures_the_case_in_the_locked_environment(dlperf, monkeypatch):
    from dlperf_sdk import environments
    from dlperf_sdk.registry.plugins import Registry

    requested = []

    def from_lock(framework, device, python, lock, *, on_progress, **_):
        requested.append(lock)
        spec = Registry().framework(framework).environment(device, "all_reduce", "linear")
        return environments.prepare(framework, spec, device, on_progress=on_progress)

    monkeypatch.setattr(environments, "obtain_from_lock", from_lock)
    first = json.loads(dlperf("run", *ONE, "--seed", "5", "--env", "MINE=1", "--json", "--quiet")[1])
    code, out, _ = dlperf("rerun", first["id"], "--json", "--quiet", "--allow", "MINE", "--allow", "lock")
    again = json.loads(out)
    assert code == 0
    assert requested == [first["environment"]["lock"]]
    assert again["spec"] == first["spec"]
    assert again["id"] != first["id"]


def test_rerun_executes_only_allowed_programs_of_a_file(dlperf, stored, tmp_path):
    result = stored()
    path = tmp_path / "dlperf-results" / result.id / "result.json"
    document = json.loads(path.read_text())
    document["spec"] |= {
        "env": {"LD_PRELOAD": "./evil.so"},
        "options": {"launcher_flags": "-oProxyCommand=evil"},
        "python": "./evil",  # which is not taken: the lock is
    }
    path.write_text(json.dumps(document))
    for which in (result.id, str(path)):
        code, out, err = dlperf("rerun", which, "--allow", "launcher_flags")
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert "sets the variable LD_PRELOAD, which" in err
        assert "--allow LD_PRELOAD (" in err
    assert [item.name for item in (tmp_path / "dlperf-results").iterdir()] == [result.id]


def test_rerun_installs_only_locked_or_allowed_packages(dlperf, stored, tmp_path):
    result = stored()
    path = tmp_path / "dlperf-results" / result.id / "result.json"
    document = json.loads(path.read_text())
    document["spec"]["topology"] = "1n1d"
    document["environment"]["lock"] = "torch==2.13.0\nNumPy==2.4.6\nsix==1.16.0\n"
    path.write_text(json.dumps(document))
    code, out, err = dlperf("rerun", result.id)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "has 'six==1.16.0' installed, which the plugin's own environment lacks" in err
    assert "--allow lock (" in err


# -- list and describe


def test_list_names_all_plugins_of_each_group_on_one_screen(dlperf):
    code, out, err = dlperf("list")
    groups = json.loads(dlperf("list", "--json")[1])
    assert (code, err) == (0, "")
    assert len(out.splitlines()) <= 24
    assert not {row["name"] for rows in groups.values() for row in rows} - set(re.findall(r"[\w.-]+", out))
    assert groups.keys() <= set(out.split())


def test_list_of_a_group_breaks_no_name_of_a_class_on_a_narrow_terminal(dlperf):
    _, out, _ = dlperf("list", "frameworks")
    targets = [row["target"] for row in json.loads(dlperf("list", "frameworks", "--json")[1])["frameworks"]]
    assert "dlperf-numpy 0.1.0" in out
    assert max(map(len, out.splitlines())) <= 80
    words = set(out.split())
    assert targets and not {name for target in targets for name in target.split(":")} - words


@pytest.mark.parametrize("group", ["models", "model"])
def test_list_of_one_group(dlperf, group):
    names = [row["name"] for row in json.loads(dlperf("list", group, "--json")[1])["models"]]
    assert {"bert-base", "linear", "resnet50"} <= set(names)


@pytest.mark.long
def test_a_broken_plugin_is_a_row_with_its_error(dlperf, tmp_path, monkeypatch):
    distribution(
        tmp_path / "site",
        "broken-plugin",
        {"dlperf_sdk.frameworks": {"broken": "broken_plugin:X"}},
        {"broken_plugin": "1/0"},
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    code, out, _ = dlperf("list", "frameworks")
    assert code == 0
    assert "X in broken_plugin" in out
    code, out, _ = dlperf("list", "frameworks", "--check", "--json")
    assert code == 3
    rows = {row["name"]: row["error"] for row in json.loads(out)["frameworks"]}
    assert rows["numpy"] is None
    assert "ZeroDivisionError" in rows["broken"]
    code, _, err = dlperf("run", "broken", "linear")
    assert code == 3
    assert "broken-plugin 1.0" in err
    code, out, _ = dlperf("doctor", "--json")
    assert code == 3
    assert [
        item["outcome"] for item in json.loads(out)["findings"] if "broken does not work" in item["detail"]
    ] == ["broken"]


def test_describe_a_model(dlperf):
    document = json.loads(dlperf("describe", "resnet50", "--json")[1])
    assert document["parameters"] == 25_557_032
    assert document["tensors"] == 161
    assert sum(term["flops"] for term in document["flops"]) == document["flops_per_sample"]
    assert {"name", "type", "default", "help", "role", "executes", "reads", "value"} == set(
        document["options"][0]
    )
    code, out, err = dlperf("describe", "model", "resnet50", "--set", "image_size=64")
    assert (code, err) == (0, "")
    for words in (
        "25,557,032, in 161 tensors",
        "image (3, 64, 64) float32",
        "momentum 0.875",
        "conv1",
        "224",
    ):
        assert words in out


def test_describe_model_for_authors_of_trainers(dlperf):
    """What is computed, to the epsilon and the layout, and every parameter."""
    document = json.loads(dlperf("describe", "bert-base", "--set", "layers=1", "--json")[1])
    assert len(document["manifest"]) == document["tensors"] == 30
    assert document["manifest"][0] == {
        "name": "embeddings.word.weight",
        "shape": [30522, 768],
        "init": {"kind": "truncated-normal", "std": 0.02, "bound": 2.0},
        "decay": True,
    }
    assert "Layer norm has epsilon 1e-12" in " ".join(document["page"].split())
    code, out, err = dlperf("describe", "bert-base", "--set", "layers=1")
    assert (code, err) == (0, "")
    output = " ".join(out.split())
    for words in (
        "Layer norm has epsilon 1e-12",
        "Keys whose `attention_mask` is 0 get no attention",
        "(out, in)",
    ):
        assert words in output
    rows = [line.split() for line in out.splitlines()]
    for entry in document["manifest"]:
        shape = "×".join(map(str, entry["shape"]))
        assert any(row[:2] == [entry["name"], shape] for row in rows), entry
    bias = next(row for row in rows if row[:1] == ["masked_lm.norm.bias"])
    assert bias == ["masked_lm.norm.bias", "768", "constant", "value", "0", "no"]


def test_describe_model_from_a_module_with_several_models(dlperf):
    document = json.loads(dlperf("describe", "softmax", "--json")[1])
    assert document["page"].startswith("Softmax regression: z = x Wᵀ")


def test_describe_a_framework(dlperf):
    code, out, err = dlperf("describe", "framework", "numpy")
    assert (code, err) == (0, "")
    for words in ("linear", "all_reduce, independent", "numpy>=1.17", ">=3.7"):
        assert words in out


@pytest.mark.parametrize("name", ["local", "throughput", "power"])
def test_describe_anything_else(dlperf, name):
    code, out, err = dlperf("describe", name)
    assert (code, err) == (0, "")
    assert out.startswith(name)


# -- doctor


BROKEN = """
from dlperf_sdk import Capabilities, Framework

class Broken(Framework):
    name = "broken"
    runtime = "never:Reached"
    trainers = {"linear": "never:Reached"}
    capabilities = Capabilities(devices={"cpu"})

    def environment(self, device, strategy, model):
        return {}["cpu"]

class Nowhere(Broken):
    name = "nowhere"
    capabilities = Capabilities(devices=())
"""


@pytest.mark.long
def test_a_framework_that_raises_is_a_row_with_its_error_and_ends_no_command_with_a_crash(
    dlperf, tmp_path, monkeypatch
):
    entries = {name.lower(): f"raising_plugin:{name}" for name in ("Broken", "Nowhere")}
    distribution(
        tmp_path / "site", "raising-plugin", {"dlperf_sdk.frameworks": entries}, {"raising_plugin": BROKEN}
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    code, out, _ = dlperf("doctor", "--json")
    actual = {item["name"]: item for item in json.loads(out)["findings"]}
    assert (code, actual["python for numpy"]["outcome"]) == (3, "ok")
    for name in ("broken", "nowhere"):
        assert actual[f"python for {name}"]["outcome"] == "broken"
        assert f"{name}'s plugin (raising-plugin 1.0) cannot say" in actual[f"python for {name}"]["advice"]
    for words in (["run", "broken", "linear"], ["describe", "broken"], ["env", "create", "broken"]):
        code, out, err = dlperf(*words)
        assert (code, out) == (3, "")
        assert "broken's plugin (raising-plugin 1.0) cannot" in " ".join(err.split())


def test_doctor_looks_at_everything(dlperf):
    code, out, err = dlperf("doctor", "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    names = [item["name"] for item in document["findings"]]
    for name in (
        "dlperf-sdk",
        "python",
        "uv",
        "frameworks",
        "models",
        "cache",
        "gpus",
        "processors",
        "governor",
        "quietness",
    ):
        assert any(item.startswith(name.removesuffix("s")) for item in names), name
    assert all(item["advice"] for item in document["findings"] if item["outcome"] != "ok")
    code, out, _ = dlperf("doctor")
    assert code == 0
    assert out.startswith("dlperf doctor  ready")


def test_doctor_names_managed_environments_and_how_to_verify_them(dlperf, tmp_path, monkeypatch):
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("half-made", "toy-cpu-1"):
        (managed.home() / name).mkdir()
    about = marker.Marker("toy", "cpu", "3.11.7", "k", "", (), (), 1, "2026-01-31T12:00:00+00:00")
    marker.write(managed.home() / "toy-cpu-1", about)
    (finding,) = [item for item in doctor._cache() if item.name == "environments"]
    assert finding.detail == "toy-cpu-1; files are not verified here: `dlperf env verify toy-cpu-1` does it"


def test_doctor_is_ready_with_the_core_and_one_framework(dlperf, monkeypatch):
    from dlperf_sdk.registry.plugins import Registry

    names = Registry.names
    brought = {"frameworks", "models", "topologies", "measurers"}
    monkeypatch.setattr(Registry, "names", lambda self, group: names(self, group) if group in brought else ())
    code, out, _ = dlperf("doctor", "--json")
    broken = [item for item in json.loads(out)["findings"] if item["outcome"] == "broken"]
    assert (code, broken) == (0, [])


def test_a_kind_of_plugins_that_every_run_needs_is_said_to_be_missing(dlperf, monkeypatch):
    from dlperf_sdk.registry.plugins import Registry

    names, rows = Registry.names, Registry.rows
    absent = ("frameworks", "collections", "importers")
    monkeypatch.setattr(Registry, "names", lambda self, group: () if group in absent else names(self, group))
    monkeypatch.setattr(Registry, "rows", lambda self, group: () if group in absent else rows(self, group))
    code, out, _ = dlperf("doctor", "--json")
    broken = [item for item in json.loads(out)["findings"] if item["outcome"] == "broken"]
    assert (code, [(item["name"], item["detail"]) for item in broken]) == (
        3,
        [("frameworks", "no framework is installed")],
    )
    out = dlperf("list")[1]
    assert "frameworks   no framework is installed\n" in out
    assert "importers    none (optional; dlperf-published brings some)\n" in out
    assert dlperf("list", "frameworks")[1] == "frameworks: no framework is installed\n"


def test_doctor_exits_with_3_and_advice_where_something_is_broken(dlperf, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "file"))
    code, out, _ = dlperf("doctor")
    assert code == 3
    assert out.startswith("dlperf doctor  not ready: cache")
    assert "DLPERF_CACHE_DIR" in out.replace("\n", "")


@pytest.mark.parametrize(("load", "outcome"), [([0.1, 0, 0], "ok"), ([3.0, 0, 0], "advice")])
def test_busy_machine_is_distinguished_from_a_quiet_one(load, outcome):
    (finding,) = doctor._load(load, 4)
    assert finding.outcome == outcome


def test_a_governor_that_follows_the_load_gets_advice():
    assert [
        item.outcome
        for governor in ("performance", "powersave")
        for item in doctor._governor({"governor": governor})
    ] == [
        "ok",
        "advice",
    ]


# -- env


def test_env_list_without_any(dlperf):
    assert "There is no managed environment" in dlperf("env", "list")[1]
    assert json.loads(dlperf("env", "list", "--json")[1]) == {"environments": []}


def test_env_list_and_remove_one_that_is_half_made(dlperf, tmp_path):
    folder = tmp_path / "cache" / "environments" / "torch-cpu-0123456789ab"
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(bytes(3 * 2**20))
    out = dlperf("env", "list")[1]
    assert "half-made" in out
    assert "3.000 MiB" in out
    assert dlperf("env", "remove", folder.name)[0] == 0
    assert not folder.exists()


def test_env_list_breaks_no_name(dlperf, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    name = "tensorflow1-cpu-0123456789abcdef0123"
    (tmp_path / "cache" / "environments" / name).mkdir(parents=True)
    assert name in dlperf("env", "list")[1]


def test_env_create_reports_its_outcome(dlperf):
    code, out, err = dlperf("env", "create", "numpy", "--json")
    assert code == 0
    assert json.loads(out)["kind"] == "running"
    assert "running interpreter" in err
    assert dlperf("env", "create", "numpy", "--quiet")[2] == ""


# -- validate


def test_validate_recognizes_the_kinds_of_documents(dlperf, measured, tmp_path):
    spec = {"framework": "numpy", "model": "linear"}
    (tmp_path / "spec.yaml").write_text("framework: numpy\nmodel: linear\n")
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    for path, kind in (
        (measured / "result.json", "result"),
        (measured / "spec.json", "run-spec"),
        (measured / "attempts" / "1" / "rank-0.json", "worker-record"),
        (tmp_path / "spec.yaml", "run-spec"),
        (tmp_path / "spec.json", "run-spec"),
    ):
        code, out, _ = dlperf("validate", str(path), "--json")
        assert (code, json.loads(out)["kind"]) == (0, kind), path


def test_validate_a_request(dlperf, tmp_path):
    from dlperf_sdk import RunSpec
    from dlperf_sdk.planning.plan import make_plan
    from dlperf_sdk.registry.plugins import Registry

    plan = make_plan(RunSpec(framework="numpy", model="linear"), Registry())
    request = plan.request("r", ("python",), {}, {"source": "synthetic"}).to_dict()
    (tmp_path / "request.json").write_text(json.dumps(request))
    assert json.loads(dlperf("validate", "request.json", "--json")[1])["kind"] == "worker-request"
    (tmp_path / "request.json").write_text(json.dumps({**request, "nodes": "two"}))
    code, _, err = dlperf("validate", "request.json")
    assert code == 2
    assert "$.nodes" in err


@pytest.mark.parametrize(
    ("content", "output"),
    [
        ("{", "not valid JSON"),
        ("[]", "must hold an object"),
        ('{"a": 1, "b": 2}', "not a document of dlperf-sdk"),
        ('{"framework": "numpy", "model": "linear", "batch_size": "x"}', "$.batch_size"),
        ('{"framework": "numpy", "model": "linear", "batchsize": 3}', "batch_size"),
        ('{"framework": "numpy", "model": "linear", "schema_version": "9.0"}', "9.0"),
    ],
)
def test_validate_reports_violations(dlperf, tmp_path, content, output):
    (tmp_path / "file.json").write_text(content)
    code, out, err = dlperf("validate", "file.json")
    assert (code, out) == (2, "")
    assert output in err


# -- report


def test_report_of_one_result(dlperf, stored, tmp_path):
    result = stored()
    shown = [dlperf("report", *words) for words in ([], [result.id], [f"dlperf-results/{result.id}"])]
    assert all(code == 0 and err == "" for code, _, err in shown)
    assert all(out.startswith("torch resnet50 · 1n2d · fp32  ok") for _, out, _ in shown)
    assert "- **Batch**" in dlperf("report", "--format", "markdown")[1]
    assert json.loads(dlperf("report", "--json")[1])["results"][0]["id"] == result.id


def test_report_of_several(dlperf, stored):
    stored(id="a")
    stored(id="b", fields={"precision": "amp-bf16"})
    code, out, _ = dlperf("report")
    assert code == 0
    assert "torch 1n2d fp32" in out
    assert "torch 1n2d amp-bf16" in out


def test_report_on_an_empty_directory(dlperf, tmp_path):
    (tmp_path / "empty").mkdir()
    code, out, err = dlperf("report", "empty")
    assert (code, out) == (2, "")
    assert "There are no results in empty yet" in err


def test_report_continues_after_a_corrupt_result(dlperf, stored, tmp_path):
    good, bad = stored(id="good"), stored(id="bad")
    (tmp_path / "dlperf-results" / bad.id / "result.json").write_text('{"schema_version": "1.0"')
    code, out, err = dlperf("report")
    assert code == 5
    assert out.startswith("torch resnet50")
    assert "bad" in err
    assert "not valid JSON" in err
    code, out, err = dlperf("report", "bad")
    assert (code, out) == (2, "")
    assert good.id not in err


def test_report_of_an_unfinished_run_lists_finished_repeats(dlperf, measured):
    (measured / "result.json").unlink()
    code, out, _ = dlperf("report")
    assert code == 5
    assert "unfinished" in out
    assert "2 repeats had finished" in out
    assert re.search(r"1 +ok +[\d,.]+ samples/s", out)


def test_report_can_be_shared(dlperf, stored):
    stored(hardware=({"host": "secret-node-7"},), notes=("secret-node-7 was busy",))
    assert "secret-node-7" in dlperf("report")[1]
    assert "secret-node-7" not in dlperf("report", "--redact")[1]
    assert "secret-node-7" not in dlperf("report", "--redact", "--json")[1]


# -- mounted in another program


def test_mounted_in_another_cyclopts_app(capsys):
    parent = cyclopts.App(name="bench", result_action="return_value")

    @parent.command
    def other() -> str:
        return "other"

    assert mount(parent) is parent
    assert parent("other") == "other"
    assert parent(["dlperf", "list", "models", "--json"]) == 0
    assert "resnet50" in capsys.readouterr().out
    assert parent(["dlperf", "run", "numpy", "linear", "--topology", "2x8"]) == 2
    assert "topology" in capsys.readouterr().err


def test_mounted_under_another_name(capsys):
    parent = mount(cyclopts.App(name="bench", result_action="return_value"), "speed")
    assert parent(["speed", "describe", "local"]) == 0
    assert capsys.readouterr().out.startswith("local")


def test_a_program_with_another_parser_hands_on_its_words(capsys):
    assert main(["list", "models", "--json"]) == 0
    assert "resnet50" in capsys.readouterr().out


def test_main_leaves_the_signal_handlers_as_they_were():
    import signal

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    main(["--version"])
    assert [signal.getsignal(number) for number in numbers] == before


def test_nohup_keeps_sighup_ignored(monkeypatch):
    import signal

    from dlperf_sdk.cli import app

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with app._handle_termination():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("words", [["--json"], ["--json", "--unknown"]])
def test_output_of_a_plugin_under_json_goes_to_standard_error(words):
    """Printed by Python, and by a program that inherits standard output."""
    script = (
        "import os, sys\n"
        "from dlperf_sdk import cli\n"
        "from dlperf_sdk.registry.plugins import Registry\n"
        "def rows(self, group):\n"
        "    print('from the plugin', flush=True)\n"
        "    os.system('echo from its program')\n"
        "    return real(self, group)\n"
        "real, Registry.rows = Registry.rows, rows\n"
        "sys.exit(cli.main(['list', 'models', *sys.argv[1:]]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *words], check=False, capture_output=True, text=True)
    assert isinstance(json.loads(done.stdout), dict), done
    if done.returncode == 0:
        assert "from the plugin" in done.stderr
        assert "from its program" in done.stderr


def test_the_script_is_main(monkeypatch, capsys):
    """Under a guard of its own: a Ctrl-C may come while the command line is still loading, or after the exit code."""
    import signal
    from importlib.metadata import entry_points

    from dlperf_sdk import cli

    handlers = {}
    monkeypatch.setattr(signal, "signal", handlers.__setitem__)
    (script,) = [entry for entry in entry_points(group="console_scripts") if entry.name == "dlperf"]
    monkeypatch.setattr(cli, "main", lambda: 7)
    assert script.load()() == 7
    assert handlers == dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), signal.SIG_IGN)

    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "main", interrupted)
    assert script.load()() == 130
    assert capsys.readouterr().err == "Interrupted.\n"
    assert build_app().name == ("dlperf",)


def test_results_are_queried_with_sql(dlperf, stored):
    stored()
    question = "select framework, throughput from results"
    code, out, err = dlperf("query", question)
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines() if "torch" in line] == [["torch", "203"]]
    assert dlperf("query", question, "--format", "csv")[1] == "framework,throughput\r\ntorch,203.0\r\n"
    document = json.loads(dlperf("query", question, "--json")[1])
    assert document == {"columns": ["framework", "throughput"], "rows": [["torch", 203.0]]}
    code, out, _ = dlperf("query")
    assert code == 0
    assert "throughput_low" in out
    code, out, _ = dlperf("query", f"{question} where framework = 'caffe'")
    assert (code, out) == (0, "No row answers the query. Its columns: framework, throughput.\n")
    code, out, err = dlperf("query", "select speed from results")
    assert (code, out) == (2, "")
    assert "no such column: speed" in err


def test_the_files_of_a_plan_are_listed_on_request(dlperf):
    _, outline, _ = dlperf("plan", *CASE)
    assert len(outline.splitlines()) <= 45
    assert "dlperf_sdk/worker/loop.py" not in outline
    code, files, _ = dlperf("plan", *CASE, "--files")
    assert code == 0
    for name in ("dlperf_sdk/worker/loop.py", "request.json", "dlperf_numpy/worker.py"):
        assert name in files, name


@pytest.mark.parametrize(
    ("line", "expected"), [("dlperf ga", "gate"), ("dlperf run --batch", "--batch-size")]
)
def test_bash_completes_commands_and_flags(dlperf, tmp_path, line, expected):
    code, script, _ = dlperf("completion", "bash")
    assert code == 0
    (tmp_path / "dlperf.bash").write_text(script)
    words = line.split()
    program = 'source dlperf.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _dlperf; echo "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", program, "bash", *words], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert expected in done.stdout.split()


def test_the_manual_page_has_every_command_and_is_valid_roff(dlperf, tmp_path):
    code, page, err = dlperf("man")
    assert (code, err) == (0, "")
    for name in app.COMMANDS:
        assert f".SS dlperf {name}".replace("-", "\\-") in page
    assert ".B \\-\\-batch\\-size" in page
    if shutil.which("groff") is not None:
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-ww", "-Kutf8"],
            input=page,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        assert "Measure one case" in done.stdout


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_accept_their_completion(dlperf, tmp_path, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed here")
    (tmp_path / "script").write_text(dlperf("completion", shell)[1])
    subprocess.run([shell, "-n", "script"], cwd=tmp_path, check=True)


@pytest.mark.parametrize(
    "words", [("query", "select count(*) from results"), ("query",), ("history",), ("history", "--json")]
)
def test_commands_on_a_store_report_results_that_cannot_be_read(dlperf, stored, tmp_path, words):
    stored()
    paths = [f"dlperf-results/2025010{number}T000000Z-damaged/result.json" for number in (1, 2)]
    for number, path in enumerate(paths):
        stored(id=path.split("/")[1])
        (tmp_path / path).write_text("{")
        code, out, err = dlperf(*words)
        assert code == 0 and "damaged" not in out
        (line,) = err.splitlines()
        assert line.startswith(f"Left out: {number + 1} result")
        assert paths[0] in line and "`unreadable`" in line
