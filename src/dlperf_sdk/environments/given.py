"""Use existing environments: that of an interpreter that the user names, or of the running one."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from dlperf_sdk import folders
from dlperf_sdk.environments import probe
from dlperf_sdk.environments.prepared import GIVEN, RUNNING, PreparedEnvironment, key_of
from dlperf_sdk.errors import EnvironmentFailed
from dlperf_sdk.interfaces.framework import EnvironmentSpec
from dlperf_sdk.spec.python_version import parse_python_specifier


def make_given_environment(
    framework: str, spec: EnvironmentSpec, device: str, python: str, variables: Mapping[str, str]
) -> PreparedEnvironment:
    """Check an interpreter that the user names, and return its environment. Nothing is installed.

    Args:
        framework: The framework's name.
        spec: The plugin's specification of its environment.
        device: The kind of device.
        python: A program, a command on PATH, or the folder of a virtual environment.
        variables: All environment variables of a worker: packages that they make visible count as installed.

    Raises:
        EnvironmentFailed: The interpreter does not exist or does not run, has the wrong version, or lacks
            requirements; the message names the missing ones.
        PluginError: The plugin's specification is invalid.
    """
    path, interpreter = probe_named_interpreter(python, variables)
    if not parse_python_specifier(spec.python).contains(interpreter.version, prereleases=True):
        raise EnvironmentFailed(
            f'--python {python}: {framework} requested "Python {spec.python}", '
            f'found "Python {interpreter.version}". Name an interpreter of a version that it runs on, or '
            "leave --python out to get a managed environment."
        )
    facts = probe.probe_facts(path, variables)
    problems = probe.list_unmet(spec.requirements, device, facts)
    if problems:
        raise EnvironmentFailed(
            f"--python {python}: the environment does not have what {framework} needs: {'; '.join(problems)}. "
            "Install it there, or leave --python out to get a managed environment."
        )
    return _make_environment(GIVEN, framework, device, path, facts)


def probe_named_interpreter(python: str, variables: Mapping[str, str]) -> tuple[Path, probe.Interpreter]:
    """Start an interpreter that the user names, and return its path, version and implementation.

    Args:
        python: A program, a command on PATH, or the folder of a virtual environment.
        variables: All environment variables to start the interpreter with.

    Returns:
        The absolute path of the interpreter, in which links are not resolved; and its properties.

    Raises:
        EnvironmentFailed: The interpreter does not exist, or does not run as Python.
    """
    path = locate_interpreter(python)
    interpreter = probe.probe_interpreter(path, variables)
    if interpreter is None:
        raise EnvironmentFailed(
            f"--python {python}: {path} does not run as a Python interpreter. Name one, such as "
            "/usr/bin/python3, or the folder of a virtual environment."
        )
    return path, interpreter


def locate_interpreter(python: str) -> Path:
    """Return the absolute path of an interpreter that the user names, in which links are not resolved.

    `python` is a program, a command on PATH, or the folder of a virtual environment. Nothing is started.

    Raises:
        EnvironmentFailed: There is no such interpreter.
    """
    # The path is not resolved: a virtual environment's python is a link, and Python finds the environment by the
    # link's path.
    path = folders.expand_home(python)
    if path.is_dir():
        inside = path / "bin" / "python"
        if inside.is_file():
            return inside.absolute()
        raise EnvironmentFailed(
            f"--python {python} is a folder without bin/python, so no virtual environment. Name an "
            "interpreter, or the folder of a virtual environment."
        )
    if path.is_file():
        return path.absolute()
    if "/" not in python and (executable := shutil.which(python)):
        return Path(executable).absolute()
    raise EnvironmentFailed(
        f"--python {python}: there is no such file, and no command of that name on PATH. Name an "
        "interpreter, for example /usr/bin/python3.11, or the folder of a virtual environment."
    )


def make_running_environment(
    framework: str, spec: EnvironmentSpec, device: str, variables: Mapping[str, str]
) -> PreparedEnvironment | str:
    """Check the running interpreter, and return its environment.

    Args:
        framework: The framework's name.
        spec: The plugin's specification of its environment.
        device: The kind of device.
        variables: All environment variables of a worker.

    Returns:
        The environment; or, if it cannot be used, a clause with the reason, without a full stop.

    Raises:
        PluginError: The plugin's specification is invalid.
    """
    path = Path(sys.executable) if sys.executable else None
    interpreter = probe.probe_interpreter(path, variables) if path else None
    if path is None or interpreter is None:
        return "this interpreter cannot be started again"
    if not parse_python_specifier(spec.python).contains(interpreter.version, prereleases=True):
        return f"this interpreter is Python {interpreter.version}, not {spec.python}"
    try:
        facts = probe.probe_facts(path, variables)
    except EnvironmentFailed as error:
        return str(error)
    problems = probe.list_unmet(spec.requirements, device, facts)
    if problems:
        return f"this interpreter does not have what is needed: {'; '.join(problems)}"
    return _make_environment(RUNNING, framework, device, path, facts)


def _make_environment(
    kind: str, framework: str, device: str, path: Path, facts: probe.Facts
) -> PreparedEnvironment:
    return PreparedEnvironment(
        kind=kind,
        framework=framework,
        device=device,
        python=facts.version,
        lock=facts.lock,
        command=(str(path),),
        key=key_of(framework, device, facts.minor, facts.lock),
        path=facts.prefix,
    )
