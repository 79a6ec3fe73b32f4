"""The README keeps its limit, and its code blocks work."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from code_blocks import blocks_of, execute

from dlperf_sdk.cli import main

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
MAXIMUM_LINES = 150
INSTALL, WHEELS, MEASURE, PYTHON = blocks_of(README)


def test_the_readme_keeps_its_limit():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= MAXIMUM_LINES


def test_the_python_example_has_four_lines():
    assert len([line for line in PYTHON.text.splitlines() if line]) == 4


def test_the_command_is_a_valid_case(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (command,) = MEASURE.commands
    assert main([*shlex.split(command)[1:], "--dry-run"]) == 0
    assert "a plan: nothing was started" in capfd.readouterr().out


def test_relative_links_lead_to_files():
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", README.read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


@pytest.mark.framework
@pytest.mark.timeout(1200)
def test_command_prints_the_output_in_the_readme(tmp_path):
    execute(MEASURE, tmp_path)


@pytest.mark.framework
@pytest.mark.timeout(1200)
def test_the_python_example_prints_a_throughput(tmp_path):
    assert re.fullmatch(r"ok \d+\.\d+ img/s\n", execute(PYTHON, tmp_path))


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_demo_measures():
    assert "throughput" in execute(INSTALL, ROOT)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_wheels_can_be_installed(tmp_path):
    make, pip = WHEELS.commands
    subprocess.run(["bash", "-euc", make], cwd=ROOT, check=True)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True)
    environment_bin = tmp_path / "environment" / "bin"
    subprocess.run(["bash", "-euc", f"{environment_bin}/{pip}"], cwd=ROOT, check=True)
    subprocess.run([environment_bin / "dlperf", "describe", "torch"], cwd=tmp_path, check=True)
