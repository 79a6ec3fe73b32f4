"""`dlperf try`: one worker on a small case, what it answers, and the place where a plugin fails."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from cli_fixtures import dlperf, isolated_directory  # noqa: F401 - fixtures
from throwaway import distribution

from dlperf_sdk import skeleton
from dlperf_sdk.cli.trying import explain_failure, list_problems

SOUND = {
    "asked": None,
    "initial": [],
    "traceless": True,
    "losses": [[2.0], [1.5]],
    "changed": [True, True],
    "settled": True,
}


def test_a_plugin_without_a_problem(dlperf):
    code, out, _ = dlperf("try", "numpy", "linear")
    assert code == 0
    for words in (
        "equal to the canonical weights",
        "on the canonical batch",
        "precision",
        "No problem found",
    ):
        assert words in " ".join(out.split())


def test_the_answers_as_json(dlperf):
    code, out, _ = dlperf("try", "numpy", "softmax", "--json")
    document = json.loads(out)
    assert (code, document["problems"], document["exit_code"]) == (0, [], 0)
    assert document["answers"]["observed"]["precision"] == "fp32"
    assert len(document["answers"]["losses"]) == len(document["answers"]["changed"])


@pytest.mark.long
def test_missing_method_of_a_new_plugin_is_named_with_its_file(tmp_path):
    created = skeleton.write("fresh", tmp_path)
    site = created.folder / "src"
    entry = {"dlperf_sdk.frameworks": {"fresh": "dlperf_fresh.framework:Fresh"}}
    distribution(site, "dlperf-fresh", entry, {})
    script = "import sys; from dlperf_sdk.cli import main; sys.exit(main(['try', 'fresh', 'resnet50']))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "failed at dlperf_fresh/worker/runtime.py:" in done.stdout
    assert "NotImplementedError: FILL IN" in done.stdout


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"initial": ["weight", "bias"]}, "2 parameters differ from the canonical weights"),
        ({"traceless": False}, "`deviation` changed a parameter"),
        ({"losses": [[2.0], [float("nan")]]}, "The loss of step 2 is nan"),
        ({"changed": [True, False]}, "Step 2 changed no parameter"),
        ({"settled": False}, "Parameters changed after `synchronize`"),
        ({"asked": "step", "error": "ValueError: shapes"}, "`step` failed: ValueError: shapes"),
    ],
)
def test_each_problem_is_named(change, words):
    assert list(list_problems(SOUND)) == []
    (problem,) = list_problems({**SOUND, **change})
    assert words in problem


def test_the_place_of_a_failure_is_the_plugins_own_line():
    traceback = (
        'Traceback (most recent call last):\n  File "dlperf_sdk/worker/base_trainer.py", line 9, in step\n'
        '  File "/tmp/x/bundle/dlperf_mine/worker/training.py", line 34, in forward\n'
        '  File "/usr/lib/python3/site-packages/torch/nn.py", line 7, in call\nRuntimeError: no kernel'
    )
    expected = "`step` failed at dlperf_mine/worker/training.py:34 in forward: RuntimeError: no kernel"
    assert explain_failure("step", traceback) == expected
    assert "anything" not in explain_failure("anything", "the log's last line")


def test_more_than_one_device_is_refused(dlperf):
    code, _, err = dlperf("try", "numpy", "linear", "--topology", "1n2d")
    assert code == 2
    assert "starts one worker" in err


def test_missing_folder_of_data_is_refused_before_anything_starts(dlperf):
    code, _, err = dlperf("try", "numpy", "linear", "--data", "images:/nowhere")
    assert code == 2
    assert "images:/nowhere does not exist" in err


def test_folder_of_data_is_prepared(dlperf):
    """What its images contain, and whether they fit the model, is known before a worker starts."""
    Path("data").mkdir()
    code, _, err = dlperf("try", "torch", "resnet50", "--data", "images:data")
    assert code == 4
    assert "There are no images in" in err
