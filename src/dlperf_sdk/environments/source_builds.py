"""Build distributions without fitting wheels from source, in the environment that needs them."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from dlperf_sdk.environments.installer import Installer
from dlperf_sdk.errors import EnvironmentFailed
from dlperf_sdk.interfaces.framework import SourceBuild

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def describe(build: SourceBuild) -> str:
    """Return a text with the normalized name of a build and its variables, such as `toy with TOY_WITH_A=1`."""
    variables = " ".join(f"{name}={value}" for name, value in sorted(build.variables.items()))
    return canonicalize_name(build.name) + (f" with {variables}" if variables else "")


def check_programs(builds: Iterable[SourceBuild]) -> None:
    """Check that all programs that the builds need are on PATH.

    Raises:
        EnvironmentFailed: A build lacks a program; the message names the programs that are missing.
    """
    for build in builds:
        missing = [program for program in build.programs if shutil.which(program) is None]
        if missing:
            raise EnvironmentFailed(
                f"{build.name} has to be built from source, and {', '.join(missing)} is not on PATH. Install it, "
                "or run in an existing environment: `dlperf run FRAMEWORK MODEL --python PATH`."
            )


def exclude(builds: Iterable[SourceBuild], requirements: Sequence[str]) -> tuple[str, ...]:
    """Return requirements, in their order, without those that name a distribution which is built from source.

    Args:
        builds: The distributions that are built from source.
        requirements: Requirement specifiers, or entries of a requirements file.
    """
    names = {canonicalize_name(build.name) for build in builds}
    return tuple(text for text in requirements if not names or _name_of(text) not in names)


def install(build: SourceBuild, requirements: Iterable[str], python: Path, installer: Installer) -> None:
    """Build a distribution from source with the packages that an environment contains, and install it there.

    uv's cache is not used: it does not tell builds with different variables apart. The build may use all processors
    that this process may use, unless the user's MAKEFLAGS say otherwise.

    Args:
        build: The distribution.
        requirements: The environment's requirements, of which one names the distribution's version.
        python: The environment's interpreter.
        installer: The installer to run.

    Raises:
        UvFailed: The build failed, or the source is not available.
        EnvironmentFailed: uv itself is missing.
    """
    pins = [text for text in requirements if _name_of(text) == canonicalize_name(build.name)]
    installer.on_progress(f"building {describe(build)} from source, which can take many minutes")
    options = ("--no-deps", "--no-build-isolation", "--no-cache", "--no-binary", build.name)
    parallel = {} if "MAKEFLAGS" in os.environ else {"MAKEFLAGS": f"-j{len(os.sched_getaffinity(0))}"}
    variables = parallel | dict(build.variables)
    installer.pip("install", "--python", str(python), *options, *pins, variables=variables)


def _name_of(text: str) -> str | None:
    """Return the normalized name that a line of a requirements file starts with; None for a comment or an option."""
    match = _NAME.match(text)
    return canonicalize_name(match[0]) if match else None
