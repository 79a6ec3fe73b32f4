"""Containers as environments: each runner's exact command line, and podman for real where it runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dlperf_sdk import RunSpec, run
from dlperf_sdk.environments.container import prefix
from dlperf_sdk.errors import SpecError
from dlperf_sdk.spec_file import load_spec

COMMANDS = {
    "podman:example.org/torch:2": (
        "podman run --rm --interactive --network=host --uts=host --ipc=host --volume=/data:/data:ro "
        "--volume=/a:/b:ro --device=nvidia.com/gpu=all example.org/torch:2"
    ),
    "podman:/images/fs": (
        "podman run --rm --interactive --network=host --uts=host --ipc=host --volume=/data:/data:ro "
        "--volume=/a:/b:ro --device=nvidia.com/gpu=all --rootfs /images/fs"
    ),
    "docker:torch:2": (
        "docker run --rm --interactive --network=host --uts=host --ipc=host --volume=/data:/data:ro "
        "--volume=/a:/b:ro --gpus=all torch:2"
    ),
    "apptainer:/images/torch.sif": (
        "apptainer exec --containall --writable-tmpfs --bind=/data:/data:ro --bind=/a:/b:ro --nv /images/torch.sif"
    ),
    "enroot:torch": (
        "enroot start --rw --mount=/data:/data:ro,rbind --mount=/a:/b:ro,rbind --env=NVIDIA_VISIBLE_DEVICES=all torch"
    ),
}


@pytest.mark.parametrize(("container", "line"), COMMANDS.items())
def test_each_runner_has_its_command_line(container, line):
    assert " ".join(prefix(container, "/data,/a:/b", "cuda")) == line


def test_without_mounts_and_gpus_there_are_none():
    assert prefix("docker:torch", None, "cpu")[-2:] == ("--ipc=host", "torch")


@pytest.mark.parametrize(
    "text", ["torch", "podman:", "lxc:torch", "podman:--privileged", "podman:a b", 3, "podman:-x"]
)
def test_what_is_no_container(text):
    with pytest.raises(SpecError, match="container is"):
        RunSpec(framework="numpy", model="linear", container=text)


@pytest.mark.parametrize("name", ["container", "container_mounts"])
def test_a_spec_file_names_no_container(name, tmp_path):
    document = {"framework": "numpy", "model": "linear", name: "podman:/"}
    (tmp_path / "case.json").write_text(json.dumps(document))
    with pytest.raises(SpecError, match=f"names the {name}"):
        load_spec(tmp_path / "case.json")


@pytest.fixture
def rootfs(tmp_path, monkeypatch):
    """A root file system without anything in it, and what podman needs to run it here."""
    if not shutil.which("podman") or os.geteuid() != 0:
        pytest.skip("podman is not installed, or this is not root")
    settings = tmp_path / "containers.conf"
    runtime = 'runtime = "runc"\n' if shutil.which("runc") else ""
    settings.write_text(
        f'[engine]\n{runtime}[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n'
    )
    monkeypatch.setenv("CONTAINERS_CONF", str(settings))
    folder = tmp_path / "rootfs"
    for name in ("usr", "tmp", "etc", "proc", "sys", "dev", "run", "root"):
        (folder / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (folder / name).symlink_to(f"usr/{name}")
    probe = ["podman", "run", "--rm", "--volume=/usr:/usr:ro", "--rootfs", str(folder), "true"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"podman does not run here: {done.stderr.strip()[-200:]}")
    return folder


def test_a_case_in_a_container(rootfs, tmp_path):
    prefixes = {str(Path(sys.prefix)), str(Path(sys.base_prefix))}
    result = run(
        *("numpy", "linear"),
        topology="2n1d",
        batch_size=8,
        warmup=2,
        steps=20,
        repeats=1,
        container=f"podman:{rootfs}",
        container_mounts=",".join(["/usr", *sorted(prefixes - {"/usr"})]),
        python=sys.executable,
        store=tmp_path / "store",
    )
    assert result.failure is None
    assert result.environment.kind == "container"
    assert {fact.name: fact.observed for fact in result.facts}["container"] == f"podman:{rootfs}"
    assert result.hardware[0]["virtualisation"]["container"] == "podman"
    left = subprocess.run(["podman", "ps", "-q"], capture_output=True, text=True, check=True).stdout
    assert left == ""


def test_a_container_without_the_framework(rootfs, tmp_path):
    result = run("numpy", "linear", container=f"podman:{rootfs}", store=tmp_path / "store")
    assert result.failure.kind == "environment"
    assert "container does not start" in result.failure.message
