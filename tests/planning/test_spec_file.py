"""A spec file is data: it names no program, and nothing outside its own directory."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from dlperf_torch.framework import Torch

from dlperf_sdk.cli import main
from dlperf_sdk.errors import DocumentError, SpecError
from dlperf_sdk.planning.spec_file import check_allowed, load_spec
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.run_spec import RunSpec

CASE = {"framework": "torch", "model": "resnet50"}
REGISTRY = Registry()


def written(folder: Path, **fields: Any) -> Path:
    path = folder / "case.json"
    path.write_text(json.dumps({**CASE, **fields}))
    return path


def test_a_relative_folder_belongs_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "elsewhere").mkdir()
    path = written(tmp_path, data="images:photos")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load_spec(path).data.path == str(tmp_path / "photos")
    assert load_spec(Path("../case.json")).data.path == str(tmp_path / "photos")
    assert load_spec(written(tmp_path, data=f"text:{tmp_path}/photos")).data.path == str(tmp_path / "photos")
    assert str(load_spec(written(tmp_path, data="synthetic-host")).data) == "synthetic-host"


@pytest.mark.parametrize("folder", ["..", "../photos", "a/../../b", "/", "/etc", "link", "link/below"])
def test_a_folder_outside_is_refused(tmp_path: Path, folder: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "link").symlink_to(tmp_path)
    path = written(home, data=f"images:{folder}")
    with pytest.raises(SpecError, match="outside its own directory"):
        load_spec(path)
    assert load_spec(path, {"data": "images:/there"}).data.path == "/there"


@pytest.mark.parametrize("name", ["framework", "model"])
def test_a_required_field_can_be_replaced(tmp_path: Path, name: str) -> None:
    assert getattr(load_spec(written(tmp_path, batch_size=8), {name: "other"}), name) == "other"
    path = tmp_path / "short.json"
    path.write_text(json.dumps({field: value for field, value in CASE.items() if field != name}))
    assert getattr(load_spec(path, {name: "other"}), name) == "other"
    with pytest.raises(DocumentError, match=name):
        load_spec(path)


def test_a_file_names_no_program(tmp_path: Path) -> None:
    path = written(tmp_path, python="/usr/bin/evil")
    with pytest.raises(SpecError, match="give --python"):
        load_spec(path)
    assert load_spec(path, {"python": "/usr/bin/python3"}).python == "/usr/bin/python3"
    assert load_spec(written(tmp_path, python=None)).python is None


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "LD_AUDIT", "PYTHONPATH", "PATH", "DYLD_INSERT_LIBRARIES", "ENV"),
        *("CC", "CXX", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "XLA_FLAGS", "CUDA_HOME"),
        *(
            "NCCL_NET_PLUGIN",
            "NCCL_TOPO_DUMP_FILE",
            "NCCL_DEBUG_FILE",
            "OMP_TOOL_LIBRARIES",
            "MXNET_LIBRARY_PATH",
        ),
        *("CUDA_INJECTION64_PATH", "FLAGS_cudnn_dir", "GLOG_log_dir", "UCX_MODULE_DIR", "MINE"),
    ],
)
@pytest.mark.parametrize("value", ["./evil.so", None])
def test_a_file_sets_no_variable_that_may_load_code(tmp_path: Path, name: str, value: str | None) -> None:
    with pytest.raises(SpecError, match=f"--env {name}=VALUE"):
        load_spec(written(tmp_path, env={name: value}))


@pytest.mark.parametrize(
    "name",
    [
        *("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "KMP_AFFINITY", "KMP_BLOCKTIME", "MKL_NUM_THREADS"),
        *("NCCL_DEBUG", "NCCL_ALGO", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "NCCL_IB_HCA"),
        *("CUDA_VISIBLE_DEVICES", "NVIDIA_TF32_OVERRIDE", "DNNL_MAX_CPU_ISA", "ONEDNN_VERBOSE"),
    ],
)
def test_a_file_sets_variables_that_tune(tmp_path: Path, name: str) -> None:
    assert load_spec(written(tmp_path, env={name: "1"})).env == {name: "1"}
    assert load_spec(written(tmp_path, env={name: None})).env == {name: None}


def test_a_plugin_declares_the_variables_that_tune_its_framework(tmp_path: Path) -> None:
    tuned = type("Tuned", (Torch,), {"name": "tuned", "tuning_variables": ("MINE_THREADS",)})
    plugins = Registry({"frameworks": {"tuned": tuned}})
    env = {"MINE_THREADS": "2", "NCCL_DEBUG": "INFO"}
    assert load_spec(written(tmp_path, framework="tuned", env=env), registry=plugins).env == env
    for framework in ("torch", "not-installed"):
        with pytest.raises(SpecError, match="--env MINE_THREADS=VALUE"):
            load_spec(written(tmp_path, framework=framework, env=env), registry=plugins)


@pytest.mark.parametrize("name", ["mxnet", "oneflow", "paddle", "tensorflow", "torch"])
def test_the_tuning_variables_of_plugins_name_no_program_library_or_file(name: str) -> None:
    declared = Registry().framework(name).tuning_variables
    assert declared
    assert not [one for one in declared if re.search("PATH|DIR|FILE|LIB|PLUGIN|PRELOAD|FLAGS$", one)]


HOSTILE = {
    "python": "./evil",
    "container": "podman:evil",
    "env": {"LD_PRELOAD": "./evil.so", "OMP_NUM_THREADS": "2"},
    "options": {"launcher_flags": "-oProxyCommand=evil", "hosts": "n1"},
    "data": "images:/photos",
}


def test_spec_file_executes_only_allowed_programs() -> None:
    names = ["python", "container", "LD_PRELOAD", "launcher_flags"]
    with pytest.raises(SpecError) as refusal:
        check_allowed([{**CASE, **HOSTILE}], "The result", (), REGISTRY)
    message = str(refusal.value)
    assert message.startswith(
        "The result sets python to './evil'; sets container to 'podman:evil'; sets the "
    )
    flags = " ".join(f"--allow {name}" for name in names)
    assert f"{flags} (in Python: allow={names})" in message
    with pytest.raises(SpecError, match=r"--allow LD_PRELOAD \(") as refusal:
        check_allowed([{**CASE, **HOSTILE}], "The result", {*names} - {"LD_PRELOAD"}, REGISTRY)
    assert "evil.so" not in str(refusal.value)  # a variable's value may be a secret
    assert "ProxyCommand" not in str(refusal.value)
    check_allowed([{**CASE, **HOSTILE}], "The result", names, REGISTRY)
    check_allowed([RunSpec(**CASE).to_dict()], "The result", (), REGISTRY)


def test_programs_of_many_cases_are_listed_or_counted() -> None:
    cases = [{**CASE, "python": f"/python{i}"} for i in range(7)]
    with pytest.raises(SpecError, match=r"'/python0'.*'/python4'; and 2 more\..* --allow python \("):
        check_allowed(cases, "campaign.json", (), REGISTRY)


def test_every_mistake_is_reported_with_its_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "case.toml"
    path.write_text(
        'framework = "torch"\nmodel = "resnet50"\nbach_size = 8\nseed = -1\n'
        '[options]\n"a b" = 1\n[deadlines]\nstep = 0\n'
    )
    with pytest.raises(DocumentError) as error:
        load_spec(path)
    message = str(error.value).splitlines()
    assert [line.split(": ")[0] for line in message] == [f"{path}:{n}" for n in (3, 4, 6, 8)]
    assert "did you mean 'batch_size'" in message[0]
    for command in (["run", str(path)], ["plan", str(path)], ["validate", str(path)]):
        assert main(command) == 2
        output = capfd.readouterr().err.splitlines()
        assert [line.removeprefix("Error: ").split(": ")[0] for line in output] == [
            f"{path}:{n}" for n in (3, 4, 6, 8)
        ]


def test_validate_holds_a_campaign_to_more_than_its_schema(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    text = "name: a\nfields: {model: linear}\naxes:\n  framework: [numpy]\n"
    path.write_text(text)
    assert main(["validate", str(path)]) == 0
    path.write_text(text + "exclude:\n  - {sed: 1}\n  - {modell: linear}\n")
    capfd.readouterr()
    assert main(["validate", str(path)]) == 2
    output = capfd.readouterr().err.splitlines()
    assert output[0].startswith(f"Error: {path}:6: ")
    assert output[1].startswith(f"{path}:7: ")
