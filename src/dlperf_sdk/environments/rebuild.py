"""Rebuild an environment from the lock of a result, to repeat that result."""

from __future__ import annotations

import os

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from dlperf_sdk.documents.json_values import format_value
from dlperf_sdk.environments import interpreters, managed, plugin_lock, probe
from dlperf_sdk.environments.installer import Progress
from dlperf_sdk.environments.managed import Recipe
from dlperf_sdk.environments.prepared import PreparedEnvironment
from dlperf_sdk.errors import DocumentError, EnvironmentFailed
from dlperf_sdk.interfaces.framework import EnvironmentSpec, SourceBuild

_OWN_PREFIX = "dlperf-"
"""Distributions of this project and its plugins: workers get them in the bundle, whatever is installed."""


def obtain_from_lock(
    framework: str,
    device: str,
    python_version: str,
    lock_text: str,
    *,
    requested: tuple[str, ...] = (),
    uv_options: tuple[str, ...] = (),
    source_builds: tuple[SourceBuild, ...] = (),
    on_progress: Progress = lambda text: None,
) -> PreparedEnvironment:
    """Return a managed environment with exactly the versions of a lock: an existing one, or a new one.

    Distributions of dlperf itself in the lock are left out: workers get them in the bundle.

    Args:
        framework: The framework of the environment.
        device: The kind of device.
        python_version: The version of Python that the lock was taken from; another patch release may be used.
        lock_text: The lock, one `NAME==VERSION` per line; a comment marks a distribution that is not from an index.
        requested: The `requirements` in the specification of the framework's plugin; empty if it is not installed.
        uv_options: The `uv_options` in the specification of the framework's plugin.
        source_builds: The `source_builds` in the specification of the framework's plugin.
        on_progress: Called with a line of text when a step begins.

    Raises:
        DocumentError: A line of the lock is not `NAME==VERSION`, or the version of Python is invalid.
        EnvironmentFailed: A distribution did not come from an index or is no longer available, there is no such
            Python here, or the environment cannot be made.
    """
    pins = _pins(lock_text)
    minor = ".".join(python_version.split(".")[:2])
    if not all(part.isdecimal() for part in minor.split(".")) or minor.count(".") != 1:
        raise DocumentError(f"{python_version!r} is not a version of Python, such as 3.11.7.")
    lock = "".join(f"{pin}\n" for pin in pins)
    environment = managed.obtain_with_lock(framework, device, minor, lock, on_progress)
    if environment:
        return environment
    recipe = Recipe(
        framework=framework,
        device=device,
        interpreter=interpreters.find(f"=={minor}.*", os.environ),
        requirements=pins,
        lock=None,
        uv_options=uv_options,
        requested=requested,
        source_builds=source_builds,
        exact=True,
    )
    return managed.obtain(recipe, on_progress)


def list_unlisted_packages(
    framework: str, device: str, python_version: str, lock_text: str, declared: EnvironmentSpec
) -> list[str]:
    """Return the pins of a lock that `obtain_from_lock` would install and that the plugin does not declare.

    Installing a distribution runs its code, and the lock may come from another person.

    Args:
        framework: The framework of the environment.
        device: The kind of device.
        python_version: The version of Python that the lock was taken from.
        lock_text: The lock, one `NAME==VERSION` per line; a comment marks a distribution that is not from an index.
        declared: The specification of the framework's plugin. Its lock, or without one its requirements, names the
            distributions that the plugin declares.

    Returns:
        `NAME==VERSION` of each undeclared distribution, sorted. Empty if a managed environment with the same lock
        exists, because it would be used.

    Raises:
        DocumentError: A line of the lock is not `NAME==VERSION`.
        EnvironmentFailed: A distribution did not come from an index, or the folder of environments cannot be used.
        PluginError: The plugin's lock cannot be read; an entry of it, or one of the plugin's requirements, is not a
            requirement.
    """
    pins = _pins(lock_text)
    minor = ".".join(python_version.split(".")[:2])
    if managed.obtain_with_lock(
        framework, device, minor, "".join(f"{pin}\n" for pin in pins), lambda text: None
    ):
        return []
    lock = plugin_lock.read_lock(framework, declared)
    requirements = declared.requirements if lock is None else plugin_lock.list_requirements(lock)
    known = {canonicalize_name(probe.parse_requirement(text).name) for text in requirements}
    return [pin for pin in pins if canonicalize_name(Requirement(pin).name) not in known]


def _pins(lock_text: str) -> tuple[str, ...]:
    pins: list[str] = []
    non_index_pins: list[str] = []
    for number, line in enumerate(lock_text.splitlines(), 1):
        pin, _, comment = (part.strip() for part in line.partition("#"))
        if not pin:
            continue
        try:
            requirement = Requirement(pin)
        except InvalidRequirement as error:
            raise DocumentError(
                f"Line {number} of the lock is {format_value(pin)}, which is not a requirement."
            ) from error
        operators = [specifier.operator for specifier in requirement.specifier]
        if operators not in (["=="], ["==="]) or requirement.url or requirement.marker or requirement.extras:
            raise DocumentError(
                f"Line {number} of the lock is {format_value(pin)}; it must be NAME==VERSION."
            )
        if requirement.name.startswith(_OWN_PREFIX):
            continue
        (non_index_pins if comment else pins).append(pin)
    if non_index_pins:
        raise EnvironmentFailed(
            f"The environment of the result cannot be made again: {', '.join(non_index_pins)} came from a folder, "
            "an archive or version control, not from an index. Run its case instead, in an interpreter that has it: "
            "`dlperf run FRAMEWORK MODEL --python PATH`."
        )
    return tuple(sorted(pins))
