"""`dlperf fleet` on several nodes of this machine: what ssh would start on a node is started here."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from code_blocks import blocks_of

from dlperf_sdk.cli import main
from dlperf_sdk.parity import cache as parity_cache

pytestmark = pytest.mark.long

SSH = """\
#!/bin/sh
while [ $# -gt 2 ]; do shift; done
case "$1" in gone) echo "No route to host" >&2; exit 255;; esac
LC_NODE="$1" exec sh -c "$2"
"""
CASE = ("--python", sys.executable, "--topology", "1n1d@ssh", "--batch-size", "8", "--quiet")
SHORT = ("--warmup", "2", "--steps", "20", "--repeats", "2")
LONG_AGO = "2001-01-31T12:00:00+00:00"


@pytest.fixture(autouse=True)
def nodes(tmp_path, monkeypatch):
    """An ssh that runs a node's command on this machine, with the node's name in a variable that workers inherit."""
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o700)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)


def fleet(capsys, *words):
    code = main(["fleet", *words, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_planted_faults_are_found_and_what_is_measured_is_not_measured_again(capsys):
    words = ("faulty", "linear", *CASE, *SHORT, "--output", "runs", "--set", "fault=bit-flip@n3,slow@n2")
    code, document = fleet(capsys, *words, "--hosts", "n[1-4],gone")
    assert code == 1
    nodes = {node["name"]: node for node in document["nodes"]}
    assert nodes["n3"]["numerics"]["outcome"] == "differs"
    assert [nodes[name]["numerics"]["outcome"] for name in ("n1", "n2", "n4")] == ["equal"] * 3
    assert nodes["n2"]["speed"]["outcome"] == "slow"
    assert "No route to host" in nodes["gone"]["failure"]
    before = {node["run"] for node in document["nodes"]}
    code, document = fleet(capsys, *words, "--hosts", "n[1-4]", "--report", "report.md")
    assert {node["run"] for node in document["nodes"]} == before
    assert "its final parameters differ" in Path("report.md").read_text().lower()
    code, again = fleet(capsys, "runs")
    assert (code, again) == (1, document)


def test_parity_is_measured_on_each_node(capsys):
    """A fleet takes no evidence from the cache, which a run takes: it may be another node's."""
    words = ("run", "numpy", "linear", *CASE, *SHORT, "--set", "hosts=n1", "--json")
    assert main([*words, "--output", "first"]) == 0
    key = json.loads(capsys.readouterr().out)["parity"]["key"]
    evidence = json.loads((parity_cache.directory() / f"{key}.json").read_text())["records"]
    parity_cache.store(key, evidence, LONG_AGO)
    assert main([*words, "--output", "second"]) == 0
    assert json.loads(capsys.readouterr().out)["parity"]["made_at"] == LONG_AGO
    _, document = fleet(capsys, "numpy", "linear", *CASE, *SHORT, "--output", "runs", "--hosts", "n1,n2")
    runs = [Path("runs") / node["run"] / "result.json" for node in document["nodes"]]
    made = [json.loads(path.read_text())["parity"] for path in runs]
    assert {parity["key"] for parity in made} == {key}
    assert LONG_AGO not in {parity["made_at"] for parity in made}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--hosts", ""), "name them with --hosts"),
        (("--hosts", "n1,n1"), "named twice"),
        (("--hosts", "me@n1,you@n1"), "named twice"),
        (("--hosts", "n1", "--topology", "2n1d@ssh"), "write 1n1d@ssh"),
        (
            ("--hosts", "n1", "--topology", "1n1d"),
            "of your choice. Choose another one with --topology, for example 1n1d@ssh.",
        ),
        (("--hosts", "n1", "--parallel", "0"), "must be 1 or more"),
        (("--hosts", "n1", "--report", "x.pdf"), "use .html or .md"),
        (("--hosts", "n1", "--data", "images:/nowhere"), "images:/nowhere does not exist"),
    ],
)
def test_mistakes_are_found_before_anything_starts(capsys, words, message):
    topology = () if "--topology" in words else ("--topology", "1n1d@ssh")
    assert main(["fleet", "numpy", "linear", *topology, *words]) in (2, 4)
    assert message in " ".join(capsys.readouterr().err.split())
    assert not Path("dlperf-fleets").exists()


def test_ctrl_c_ends_the_nodes_and_keeps_finished_ones():
    words = ("faulty", "linear", *CASE, *SHORT, "--output", "runs", "--set", "fault=hang-step@n2")
    process = subprocess.Popen(
        [sys.executable, "-m", "dlperf_sdk", "fleet", *words, "--hosts", "n1,n2", "--parallel", "1"],
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 100
    while len(list(Path("runs").glob("*/plan.json"))) != 2:
        assert time.monotonic() < deadline, "the second node was not begun"
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, diagnostics = process.communicate(timeout=100)
    assert process.returncode == 130
    assert b"Finished nodes are kept" in diagnostics
    statuses = sorted(json.loads(path.read_text())["status"] for path in Path("runs").glob("*/result.json"))
    assert statuses == ["interrupted", "ok"]


def test_the_guide_works(capsys):
    """Its commands, with the toy in place of torch on GPUs; how steady this machine is decides between 0 and 6."""
    page = Path(__file__).parents[2] / "docs" / "how-to" / "node-health.md"
    commands = [line for block in blocks_of(page) if block.language == "sh" for line in block.commands]
    assert commands
    for line in commands:
        words = shlex.split(line)
        if "torch" in words:
            words = [
                {"torch": "numpy", "resnet50": "linear", "1n8d@ssh": "1n1d@ssh"}.get(w, w) for w in words
            ]
            words += ["--python", sys.executable, "--batch-size", "8", *SHORT]
        code = main(words[1:])
        assert code in (0, 1, 6), capsys.readouterr().err
        assert "differs" not in capsys.readouterr().out
