"""Containers as environments: each runner's exact command line, and podman for real where it runs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import root_file_system

from dlperf_sdk import EnvironmentSpec, RunSpec, run
from dlperf_sdk.environments.container import container_prefix, make_container_environment
from dlperf_sdk.errors import EnvironmentFailed, SpecError, UnknownName
from dlperf_sdk.planning.spec_file import load_spec
from dlperf_sdk.spec.checks import CONTAINER_RUNNERS

COMMANDS = {
    "podman:example.org/torch:2": (
        "podman run --rm --interactive --network=host --uts=host --ipc=host --env=NODE --env=CUDA_VISIBLE_DEVICES "
        "--volume=/data:/data:ro --volume=/a:/b:ro --device=/dev/infiniband --device=nvidia.com/gpu=all "
        "example.org/torch:2"
    ),
    "podman:/images/fs": (
        "podman run --rm --interactive --network=host --uts=host --ipc=host --env=NODE --env=CUDA_VISIBLE_DEVICES "
        "--volume=/data:/data:ro --volume=/a:/b:ro --device=/dev/infiniband --device=nvidia.com/gpu=all "
        "--rootfs /images/fs"
    ),
    "docker:torch:2": (
        "docker run --rm --interactive --network=host --uts=host --ipc=host --env=NODE --env=CUDA_VISIBLE_DEVICES "
        "--volume=/data:/data:ro --volume=/a:/b:ro --device=/dev/infiniband --gpus=all torch:2"
    ),
    "apptainer:/images/torch.sif": (
        "apptainer exec --contain --writable-tmpfs --bind=/data:/data:ro --bind=/a:/b:ro --bind=/dev/infiniband --nv "
        "/images/torch.sif"
    ),
    "enroot:torch": (
        "enroot start --rw --env=NODE --mount=/data:/data:ro,rbind,x-create=auto --mount=/a:/b:ro,rbind,x-create=auto "
        "--mount=/dev/infiniband:/dev/infiniband:rbind,x-create=auto --env=NVIDIA_VISIBLE_DEVICES=all torch"
    ),
}


@pytest.mark.parametrize(("container", "line"), COMMANDS.items())
def test_each_runner_has_its_command_line(container, line):
    spec = RunSpec(
        framework="numpy",
        model="linear",
        container=container,
        container_mounts="/data,/a:/b",
        container_devices="/dev/infiniband",
    )
    assert " ".join(container_prefix(spec, "cuda", ("NODE",))) == line


def test_container_has_only_requested_mounts_and_variables():
    spec = RunSpec(framework="numpy", model="linear", container="docker:torch")
    assert container_prefix(spec, "cpu")[-2:] == ("--ipc=host", "torch")
    assert container_prefix(RunSpec(framework="numpy", model="linear"), "cuda", ("NODE",)) == ()


@pytest.mark.parametrize("text", ["", "infiniband", "/etc/passwd", "/dev/a,", "/dev/a b", "/dev/a:/b:rw", 3])
def test_path_that_is_not_a_device_file_is_refused(text):
    with pytest.raises(SpecError, match="container_devices is"):
        RunSpec(framework="numpy", model="linear", container_devices=text)


@pytest.mark.parametrize(
    "text", ["torch", "podman:", "podman:--privileged", "podman:a b", 3, "podman:-x", "lxc:"]
)
def test_invalid_container_is_refused(text):
    with pytest.raises(SpecError, match="container is"):
        RunSpec(framework="numpy", model="linear", container=text)


@pytest.mark.parametrize(
    ("output", "message"),
    [("", "does not start"), ("hello", "does not start"), ("{}", "invalid answer"), ("[]", "invalid answer")],
)
def test_container_with_an_invalid_python_answer_is_refused(output, message):
    """Whatever the container prints in place of the facts, the error names the command."""
    spec = EnvironmentSpec(python=">=3.7", requirements=())
    with pytest.raises(EnvironmentFailed, match=f"`/bin/sh .*{message}|{message} with `/bin/sh "):
        make_container_environment(
            "numpy", spec, "cpu", ("/bin/sh", "-c", f"echo '{output}'", "/bin/echo"), {}
        )


def test_a_container_that_fails_after_some_output_says_why():
    spec = EnvironmentSpec(python=">=3.7", requirements=())
    failing = ("/bin/sh", "-c", "echo pulling; echo no space left >&2; exit 1", "/bin/echo")
    with pytest.raises(EnvironmentFailed, match="does not start .*: no space left$"):
        make_container_environment("numpy", spec, "cpu", failing, {})


def test_an_unknown_runner_is_refused_with_the_nearest():
    with pytest.raises(UnknownName, match=r"no container runner named 'podmn'. Did you mean 'podman'\?"):
        RunSpec(framework="numpy", model="linear", container="podmn:torch")


def test_every_runner_has_a_command():
    assert {container.partition(":")[0] for container in COMMANDS} == set(CONTAINER_RUNNERS)


@pytest.mark.parametrize("name", ["container", "container_mounts", "container_devices"])
def test_a_spec_file_names_no_container(name, tmp_path):
    value = "/dev/null" if name == "container_devices" else "podman:/"
    document = {"framework": "numpy", "model": "linear", name: value}
    (tmp_path / "case.json").write_text(json.dumps(document))
    with pytest.raises(SpecError, match=f"sets {name} to "):
        load_spec(tmp_path / "case.json")


@pytest.fixture
def rootfs(tmp_path, monkeypatch):
    """A root file system without anything in it, and what podman needs to run it here."""
    return root_file_system.make(tmp_path, monkeypatch)


@pytest.mark.long
def test_a_case_in_a_container(rootfs, tmp_path):
    result = run(
        *("numpy", "linear"),
        topology="2n1d",
        batch_size=8,
        warmup=2,
        steps=20,
        repeats=1,
        container=f"podman:{rootfs}",
        container_mounts=root_file_system.mounts(),
        container_devices="/dev/null",
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
