"""The pods of a manifest, for real with podman, from `dlperf bundle` to `dlperf ingest`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pods
import pytest
import root_file_system
from code_blocks import blocks_of

from dlperf_sdk.cli import main
from dlperf_sdk.results.store import ResultStore

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "kubernetes.md"


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        folder = tmp_path_factory.mktemp("image")
        pods.make_image(root_file_system.make(folder, monkeypatch), folder / "image.tar")
        yield pods.IMAGE
        pods.remove_image()


def bundle_command(nodes, image, steps="20"):
    """The command of the page, with this machine's image and Python, and the number of nodes."""
    text = next(block.text for block in blocks_of(PAGE) if "dlperf bundle numpy" in block.text)
    words = text.replace("\\\n", " ").split()[1:]
    for before, after in {
        "2n1d@kubernetes": f"{nodes}n1d@kubernetes",
        "image=registry.example.org/numpy:2": f"image={image}",
        "20": steps,
    }.items():
        assert before in words
        words[words.index(before)] = after
    return [*words, "--set", f"agent_python={sys.executable}"]


def logs_of(container):
    return subprocess.run(["podman", "logs", container], capture_output=True, check=True).stdout


@pytest.mark.parametrize("nodes", [1, 2])
def test_pods_measure_a_result(nodes, image, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(bundle_command(nodes, image)) == 0
    with pods.played(json.loads(Path("job.json").read_text()), tmp_path) as containers:
        for name in containers:
            code = subprocess.run(
                ["podman", "wait", name], capture_output=True, text=True, check=True, timeout=60
            )
            log = subprocess.run(["podman", "logs", name], capture_output=True, check=True)
            assert code.stdout.strip() == "0", log.stderr[-4000:]
            if name == containers[0]:
                Path("events.jsonl").write_bytes(log.stdout)
    assert main(["ingest", "events.jsonl", "--output", "results"]) == 0
    (result,) = ResultStore("results")
    assert result.status == "ok", result.failure
    assert [record.rank for record in result.repeats[0].records] == list(range(nodes))
    assert {node["virtualisation"]["container"] for node in result.hardware} == {"podman"}
    assert result.ok, result.verdicts


def test_pod_that_ends_early_is_reported(image, tmp_path, monkeypatch):
    """The stream of pod 0 has the failure, and ingest makes a result of it."""
    monkeypatch.chdir(tmp_path)
    assert main(bundle_command(2, image, "100000")) == 0
    with pods.played(json.loads(Path("job.json").read_text()), tmp_path) as containers:
        deadline = time.monotonic() + 60
        while b'"progress"' not in logs_of(containers[0]):
            assert time.monotonic() < deadline
            time.sleep(0.3)
        subprocess.run(["podman", "kill", containers[1]], check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["podman", "wait", containers[0]], check=True, stdout=subprocess.DEVNULL, timeout=60)
        Path("events.jsonl").write_bytes(logs_of(containers[0]))
    assert main(["ingest", "events.jsonl", "--output", "results"]) == 4
    (result,) = ResultStore("results")
    assert (result.failure.kind, result.failure.node) == ("lost-node", 1)
