"""Containers as environments: agents and workers of a case run inside an image or a root file system.

The runner stands in front of each node's command, and the bundle comes on standard input as everywhere, so nothing of
ours is in the image, and an image needs only a Python with the framework.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from dlperf_sdk.environments import probe
from dlperf_sdk.environments.prepared import CONTAINER, PreparedEnvironment, key_of
from dlperf_sdk.errors import EnvironmentFailed
from dlperf_sdk.interfaces.framework import EnvironmentSpec

PYTHON = "python3"
"""The Python inside, unless the spec's `python` names another one there."""


def prefix(container: str, mounts: str | None, device: str) -> tuple[str, ...]:
    """What runs a command in a container, `RUNNER:IMAGE`, with these folders of the node in it; pure.

    `mounts` is a list with commas of `SOURCE` or `SOURCE:TARGET`; they are read-only. The container shares the node's
    network, host name and shared memory, so that nothing is measured through a bridge; an image that begins with "/"
    or "." is a root file system, or a file of Apptainer's.
    """
    runner, _, image = container.partition(":")
    pairs = [tuple((each.split(":") * 2)[:2]) for each in (mounts or "").split(",") if each]
    return _RUNNERS[runner](image, pairs, device == "cuda")


def _podman(image: str, mounts: list[tuple[str, ...]], gpus: bool) -> tuple[str, ...]:
    return (
        *("podman", "run", "--rm", "--interactive", "--network=host", "--uts=host", "--ipc=host"),
        *(f"--volume={source}:{target}:ro" for source, target in mounts),
        *(("--device=nvidia.com/gpu=all",) if gpus else ()),
        *(("--rootfs", image) if image[0] in "/." else (image,)),
    )


def _docker(image: str, mounts: list[tuple[str, ...]], gpus: bool) -> tuple[str, ...]:
    return (
        *("docker", "run", "--rm", "--interactive", "--network=host", "--uts=host", "--ipc=host"),
        *(f"--volume={source}:{target}:ro" for source, target in mounts),
        *(("--gpus=all",) if gpus else ()),
        image,
    )


def _apptainer(image: str, mounts: list[tuple[str, ...]], gpus: bool) -> tuple[str, ...]:
    return (
        *("apptainer", "exec", "--containall", "--writable-tmpfs"),
        *(f"--bind={source}:{target}:ro" for source, target in mounts),
        *(("--nv",) if gpus else ()),
        image,
    )


def _enroot(image: str, mounts: list[tuple[str, ...]], gpus: bool) -> tuple[str, ...]:
    return (
        *("enroot", "start", "--rw"),
        *(f"--mount={source}:{target}:ro,rbind" for source, target in mounts),
        *(("--env=NVIDIA_VISIBLE_DEVICES=all",) if gpus else ()),
        image,
    )


_RUNNERS = {"podman": _podman, "docker": _docker, "apptainer": _apptainer, "enroot": _enroot}
RUNNERS = tuple(_RUNNERS)


def contained(
    framework: str, spec: EnvironmentSpec, device: str, command: tuple[str, ...], variables: Mapping[str, str]
) -> PreparedEnvironment:
    """The environment that `command`, a container's prefix and its Python, starts here.

    Raises:
        EnvironmentFailed: it does not start, has the wrong Python, or lacks requirements; names each.
    """
    where = " ".join(command)
    try:
        done = subprocess.run(
            [*command, "-I", "-c", probe.SCRIPT.read_text(encoding="utf-8")],
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=10 * probe.PATIENCE,  # an image may have to be fetched
            check=False,
        )
        plain = json.loads(done.stdout.decode("utf-8", "replace").strip().splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.SubprocessError) as error:
        said = (
            done.stderr.decode("utf-8", "replace").strip()[-500:]
            if isinstance(error, IndexError)
            else str(error)
        )
        raise EnvironmentFailed(f"The container does not start with `{where}`: {said}") from error
    facts = probe.facts_from(plain)
    if not probe.python_specifier(spec.python).contains(facts.version, prereleases=True):
        raise EnvironmentFailed(
            f'{framework} requested "Python {spec.python}", and `{where}` is {facts.version}.'
        )
    unmet = probe.unmet(spec.requirements, device, facts)
    if unmet:
        raise EnvironmentFailed(f"`{where}` does not have what {framework} needs: {'; '.join(unmet)}.")
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
