"""A spec file is data: it names no program, and nothing outside its own directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dlperf_sdk.errors import SpecError
from dlperf_sdk.spec import RunSpec

CASE = {"framework": "torch", "model": "resnet50"}


def written(folder: Path, **fields: Any) -> Path:
    path = folder / "case.json"
    path.write_text(json.dumps({**CASE, **fields}))
    return path


def test_a_relative_folder_belongs_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "elsewhere").mkdir()
    path = written(tmp_path, data="images:photos")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert RunSpec.load(path).data.path == str(tmp_path / "photos")
    assert RunSpec.load("../case.json").data.path == str(tmp_path / "photos")
    assert RunSpec.load(written(tmp_path, data=f"text:{tmp_path}/photos")).data.path == str(
        tmp_path / "photos"
    )
    assert str(RunSpec.load(written(tmp_path, data="synthetic-host")).data) == "synthetic-host"


@pytest.mark.parametrize("folder", ["..", "../photos", "a/../../b", "/", "/etc", "link", "link/below"])
def test_a_folder_outside_is_refused(tmp_path: Path, folder: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "link").symlink_to(tmp_path)
    path = written(home, data=f"images:{folder}")
    with pytest.raises(SpecError, match="outside its own directory"):
        RunSpec.load(path)
    assert RunSpec.load(path, data="images:/there").data.path == "/there"


def test_a_file_names_no_program(tmp_path: Path) -> None:
    path = written(tmp_path, python="/usr/bin/evil")
    with pytest.raises(SpecError, match="--python PATH"):
        RunSpec.load(path)
    assert RunSpec.load(path, python="/usr/bin/python3").python == "/usr/bin/python3"
    assert RunSpec.load(written(tmp_path, python=None)).python is None


@pytest.mark.parametrize("name", ["LD_PRELOAD", "LD_AUDIT", "PYTHONPATH", "PATH", "DYLD_INSERT_LIBRARIES"])
def test_a_file_sets_no_variable_that_loads_code(tmp_path: Path, name: str) -> None:
    with pytest.raises(SpecError, match=f"--env {name}=VALUE"):
        RunSpec.load(written(tmp_path, env={name: "./evil.so"}))


def test_a_file_sets_other_variables(tmp_path: Path) -> None:
    spec = RunSpec.load(written(tmp_path, env={"NCCL_DEBUG": "INFO", "LDFLAGS": None}))
    assert spec.env == {"NCCL_DEBUG": "INFO", "LDFLAGS": None}
