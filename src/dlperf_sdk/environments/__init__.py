"""Find or make the environment of a framework's workers, and record exactly what it contains.

`prepare` chooses, in this order: the interpreter that the user names (`--python PATH`), the running one if it
satisfies the plugin, or a managed one, made with uv in the user's cache (`DLPERF_CACHE_DIR` names another folder for
it). A version (`--python 3.11`) restricts the last two.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import attrs

from dlperf_sdk.environments.catalogue import ManagedEnvironment, list_environments, remove
from dlperf_sdk.environments.installer import Progress
from dlperf_sdk.environments.managed import use_environment
from dlperf_sdk.environments.prepared import PreparedEnvironment
from dlperf_sdk.environments.rebuild import list_unlisted_packages, obtain_from_lock
from dlperf_sdk.environments.variables import worker_variables
from dlperf_sdk.environments.verification import DamagedFile, repair, verify
from dlperf_sdk.errors import EnvironmentFailed, UsageError
from dlperf_sdk.interfaces.framework import EnvironmentSpec
from dlperf_sdk.spec.python_version import describe_refused_version, is_version, restrict_specifier

__all__ = [
    "DamagedFile",
    "ManagedEnvironment",
    "PreparedEnvironment",
    "check_exists",
    "check_interpreter",
    "list_environments",
    "list_unlisted_packages",
    "obtain_from_lock",
    "prepare",
    "remove",
    "repair",
    "use_environment",
    "verify",
    "worker_variables",
]


def check_exists(python: str) -> None:
    """Check that an interpreter that the user names exists. Nothing is started. A version passes without a search.

    Args:
        python: A program, a command on PATH, the folder of a virtual environment, or a version such as `3.11`.

    Raises:
        EnvironmentFailed: There is no such file, folder or command.
    """
    from dlperf_sdk.environments import given

    if not is_version(python):
        given.locate_interpreter(python)


def check_interpreter(python: str) -> None:
    """Check that an interpreter that the user names runs, before anything is started with it.

    Args:
        python: A program, a command on PATH, the folder of a virtual environment, or a version such as `3.11`.

    Raises:
        UsageError: The interpreter does not exist, or does not run as Python.
    """
    from dlperf_sdk.environments import given, interpreters

    try:
        if is_version(python):
            interpreters.find(f"=={python}.*", os.environ)
        else:
            given.probe_named_interpreter(python, worker_variables({}, os.environ))
    except EnvironmentFailed as error:
        raise UsageError(str(error)) from error


def prepare(
    framework: str,
    spec: EnvironmentSpec,
    device: str,
    *,
    python: str | None = None,
    inside: tuple[str, ...] = (),
    env: Mapping[str, str | None] | None = None,
    on_progress: Progress = lambda text: None,
) -> PreparedEnvironment:
    """Prepare an environment for a framework on a kind of device, and return it.

    The first of these that applies is checked and used:

    - the interpreter in a container, if `inside` is given
    - the interpreter that `python` names, unless `python` is a version
    - the running interpreter, if it meets the requirements
    - a managed environment, found in the cache or created there, which may download gigabytes

    If `python` is a version, the running interpreter or the managed environment must have it. The caller runs workers
    inside of `with use_environment(environment)`, so that the environment is not removed meanwhile.

    Args:
        framework: The framework's name.
        spec: The plugin's specification of its environment.
        device: The kind of device, such as `cpu`.
        python: A program, a command on PATH, the folder of a virtual environment, or a version such as `3.11`; in a
            container, only a command there. None if the user names none: in a container, `python3` is started.
        inside: The words that run a command in a container, in front of the command; empty without a container.
        env: The variables that the run's spec sets for workers (`RunSpec.env`); a value of None passes on this
            process's variable.
        on_progress: Called with a line of text when a step of the preparation begins.

    Raises:
        EnvironmentFailed: There is no usable environment, and none can be made; the message says what to do.
        PluginError: The plugin's specification is invalid, or its lock file cannot be read.
    """
    from dlperf_sdk.environments import container, given, interpreters, managed, plugin_lock, probe

    for text in spec.requirements:
        probe.parse_requirement(text)
    variables = worker_variables(env or {}, os.environ)
    if inside:
        # The runner is a program of this machine: it gets this machine's variables, but does not pass them on.
        command = (*inside, python or container.PYTHON)
        return container.make_container_environment(framework, spec, device, command, os.environ)
    if python is not None and is_version(python):
        restricted = restrict_specifier(spec.python, python)
        if restricted is None:
            raise EnvironmentFailed(describe_refused_version(framework, spec.python, python))
        spec = attrs.evolve(spec, python=restricted)
    elif python is not None:
        return given.make_given_environment(framework, spec, device, python, variables)
    running = given.make_running_environment(framework, spec, device, variables)
    if isinstance(running, PreparedEnvironment):
        on_progress(f"using the running interpreter, Python {running.python}")
        return running
    on_progress(f"a separate environment, since {running}")
    recipe = managed.Recipe(
        framework=framework,
        device=device,
        interpreter=interpreters.find(spec.python, os.environ),
        requirements=spec.requirements,
        lock=plugin_lock.read_lock(framework, spec),
        uv_options=spec.uv_options,
        requested=spec.requirements,
        source_builds=spec.source_builds,
    )
    return managed.obtain(recipe, on_progress)
