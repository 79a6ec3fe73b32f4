"""Containers as environments: agents and workers of a case run inside an image or a root file system.

The runner is put in front of each node's command, and the bundle comes on standard input as everywhere. So an image
needs only a Python with the framework.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from attrs import frozen

from dlperf_sdk.environments import probe
from dlperf_sdk.environments.prepared import CONTAINER, PreparedEnvironment, key_of
from dlperf_sdk.errors import EnvironmentFailed
from dlperf_sdk.interfaces.framework import EnvironmentSpec
from dlperf_sdk.spec.python_version import parse_python_specifier
from dlperf_sdk.spec.run_spec import RunSpec

PYTHON = "python3"
"""The Python in a container, unless the spec's `python` names another one."""


@frozen
class _NodeParts:
    """Parts of a node that a container gets."""

    mounts: tuple[tuple[str, str], ...]
    """Folders, and where they are inside; read-only."""
    devices: tuple[str, ...]
    """Device files other than those of GPUs."""
    gpus: bool
    variables: tuple[str, ...]
    """Variables with their values on the node; who runs the container sets them."""


def container_prefix(spec: RunSpec, device: str, placement_variables: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the words that, in front of a command, run the command in the spec's container. Nothing is started.

    The container shares the node's network, host name and shared memory, so that nothing is measured through a
    bridge. An image that begins with "/" or "." is a root file system, or an Apptainer file.

    Args:
        spec: The case; its fields `container`, `container_mounts` and `container_devices` are used.
        device: The kind of device; with `cuda` the container gets the GPUs.
        placement_variables: Names of environment variables that the container gets with the node's values.

    Returns:
        The words; empty without a container.
    """
    if not spec.container:
        return ()
    runner, _, image = spec.container.partition(":")
    listed = (mount.partition(":") for mount in _split_list(spec.container_mounts))
    mounts = tuple((source, target or source) for source, _, target in listed)
    devices = tuple(_split_list(spec.container_devices))
    return _RUNNERS[runner](image, _NodeParts(mounts, devices, device == "cuda", tuple(placement_variables)))


def _split_list(text: str | None) -> list[str]:
    return [entry for entry in (text or "").split(",") if entry]


def _pass_by_name(parts: _NodeParts) -> tuple[str, ...]:
    """Return flags that pass variables by name, as podman and docker accept them.

    A variable missing on the node stays missing.
    """
    return (*parts.variables, *(("CUDA_VISIBLE_DEVICES",) if parts.gpus else ()))


def _podman(image: str, parts: _NodeParts) -> tuple[str, ...]:
    return (
        *("podman", "run", "--rm", "--interactive", "--network=host", "--uts=host", "--ipc=host"),
        *(f"--env={name}" for name in _pass_by_name(parts)),
        *(f"--volume={source}:{target}:ro" for source, target in parts.mounts),
        *(f"--device={path}" for path in parts.devices),
        *(("--device=nvidia.com/gpu=all",) if parts.gpus else ()),
        *(("--rootfs", image) if image[0] in "/." else (image,)),
    )


def _docker(image: str, parts: _NodeParts) -> tuple[str, ...]:
    return (
        *("docker", "run", "--rm", "--interactive", "--network=host", "--uts=host", "--ipc=host"),
        *(f"--env={name}" for name in _pass_by_name(parts)),
        *(f"--volume={source}:{target}:ro" for source, target in parts.mounts),
        *(f"--device={path}" for path in parts.devices),
        *(("--gpus=all",) if parts.gpus else ()),
        image,
    )


def _apptainer(image: str, parts: _NodeParts) -> tuple[str, ...]:
    """Return the prefix for Apptainer, without `--containall`: the node's variables and IPC are available inside."""
    return (
        *("apptainer", "exec", "--contain", "--writable-tmpfs"),
        *(f"--bind={source}:{target}:ro" for source, target in parts.mounts),
        *(f"--bind={path}" for path in parts.devices),
        *(("--nv",) if parts.gpus else ()),
        image,
    )


def _enroot(image: str, parts: _NodeParts) -> tuple[str, ...]:
    return (
        *("enroot", "start", "--rw"),
        *(f"--env={name}" for name in parts.variables),
        *(f"--mount={source}:{target}:ro,rbind,x-create=auto" for source, target in parts.mounts),
        *(f"--mount={path}:{path}:rbind,x-create=auto" for path in parts.devices),
        *(("--env=NVIDIA_VISIBLE_DEVICES=all",) if parts.gpus else ()),
        image,
    )


_RUNNERS = {"podman": _podman, "docker": _docker, "apptainer": _apptainer, "enroot": _enroot}


def make_container_environment(
    framework: str, spec: EnvironmentSpec, device: str, command: tuple[str, ...], variables: Mapping[str, str]
) -> PreparedEnvironment:
    """Probe the Python in a container on this machine, and return its environment. Nothing is installed.

    Args:
        framework: The framework's name.
        spec: The plugin's specification of its environment.
        device: The kind of device.
        command: The words that run a command in the container, and the Python inside as the last word.
        variables: All environment variables of the runner, the program that starts the container.

    Raises:
        EnvironmentFailed: The container does not start within ten minutes, has the wrong Python, or lacks requirements;
            the message names the missing ones.
        PluginError: The plugin's specification is invalid.
    """
    command_line = " ".join(command)
    try:
        done = subprocess.run(
            [*command, "-I", "-c", probe.SCRIPT.read_text(encoding="utf-8")],
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=10 * probe.PATIENCE,  # an image may have to be fetched
            check=False,
        )
        facts = probe.facts_from(json.loads(done.stdout.decode("utf-8", "replace").strip().splitlines()[-1]))
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        has_ended = isinstance(error, ValueError | IndexError)  # and printed something else than the facts
        message = (has_ended and done.stderr.decode("utf-8", "replace").strip()[-500:]) or str(error)
        raise EnvironmentFailed(f"The container does not start with `{command_line}`: {message}") from error
    except (KeyError, TypeError) as error:
        raise EnvironmentFailed(f"`{command_line}` is not Python: it printed an invalid answer.") from error
    if not parse_python_specifier(spec.python).contains(facts.version, prereleases=True):
        raise EnvironmentFailed(
            f'{framework} requested "Python {spec.python}", and `{command_line}` is {facts.version}.'
        )
    problems = probe.list_unmet(spec.requirements, device, facts)
    if problems:
        raise EnvironmentFailed(
            f"`{command_line}` does not have what {framework} needs: {'; '.join(problems)}."
        )
    return PreparedEnvironment(
        kind=CONTAINER,
        framework=framework,
        device=device,
        python=facts.version,
        lock=facts.lock,
        command=command[-1:],
        key=key_of(framework, device, facts.minor, facts.lock),
        path=Path(facts.prefix),
    )
