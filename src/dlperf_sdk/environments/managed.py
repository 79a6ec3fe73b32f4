"""Managed environments: made with uv, kept in the user's cache, and found again by what they were made from.

Each has a folder `FRAMEWORK-DEVICE-KEY` with `venv/` and the marker `environment.json` in it, and a lock file beside
it. A folder without a marker is incomplete (its creator was killed) and is made anew. So is a folder whose contents
differ from its marker: the lock is part of a result, so it has to be true.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from dlperf_sdk import folders
from dlperf_sdk.environments import marker, pip_settings, plugin_lock, probe, resolution, source_builds
from dlperf_sdk.environments.installer import Installer, Progress, UvFailed
from dlperf_sdk.environments.marker import Marker
from dlperf_sdk.environments.prepared import MANAGED, PreparedEnvironment, key_of
from dlperf_sdk.environments.probe import Interpreter
from dlperf_sdk.environments.redact import redact
from dlperf_sdk.environments.variables import worker_variables
from dlperf_sdk.errors import EnvironmentFailed, Unavailable
from dlperf_sdk.interfaces.framework import SourceBuild
from dlperf_sdk.private_files import describe_holder, hold_lock
from dlperf_sdk.worker.dates import now


@frozen
class Recipe:
    """Everything that a managed environment is made from."""

    framework: str
    """The framework."""
    device: str
    """Kind of the devices."""
    interpreter: Interpreter
    """The interpreter that the environment is made with."""
    requirements: tuple[str, ...]
    """Packages to install, as requirement specifiers."""
    lock: str | None
    """The text of the plugin's lock, exact versions in requirements format, within which the requirements are
    resolved; None without a lock."""
    uv_options: tuple[str, ...]
    """Extra options for uv, which are used only if the configured indexes do not suffice."""
    requested: tuple[str, ...]
    """The requirements that name distributions which are wanted on any device; see `find_unfit_pins`."""
    source_builds: tuple[SourceBuild, ...] = ()
    """Distributions among the requirements that are built from source."""
    exact: bool = False
    """True if the requirements are a complete lock: nothing is added to them, and nothing may differ."""

    @property
    def key(self) -> str:
        """The hash by which the environment is found in the cache, 12 hexadecimal digits.

        It covers framework, device, Python's minor version, requirements, lock, options for uv, and the names and
        variables of builds from source.
        """
        contents = (*sorted(self.requirements), self.lock or "", *self.uv_options, *self.described_builds)
        return key_of(self.framework, self.device, self.interpreter.minor, *contents)

    @property
    def described_builds(self) -> tuple[str, ...]:
        """The name and the variables of each build from source, such as `toy with TOY_WITH_A=1`."""
        return tuple(map(source_builds.describe, self.source_builds))

    @property
    def name(self) -> str:
        """The name of the environment and of its folder, `FRAMEWORK-DEVICE-KEY`."""
        return f"{self.framework}-{self.device}-{self.key}"


def home() -> Path:
    """Return the folder of all managed environments; create it if needed.

    It is in DLPERF_CACHE_DIR, or else in the user's cache. The folder is accessible to the user alone: another user
    who could write there could have code run.

    Raises:
        EnvironmentFailed: The folder cannot be created or written, or belongs to another user.
    """
    try:
        root = folders.cache()
    except Unavailable as error:
        raise EnvironmentFailed(str(error)) from error
    folder = root / "environments"
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        writable = os.access(folder, os.W_OK | os.X_OK)
    except OSError as error:
        raise EnvironmentFailed(
            f"The folder for managed environments, {folder}, cannot be made: {error.strerror}. Set "
            "DLPERF_CACHE_DIR to a folder that you can write to."
        ) from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or not writable:
        raise EnvironmentFailed(
            f"The folder for managed environments, {folder}, is not a folder that you own and can write to. "
            "Set DLPERF_CACHE_DIR to one."
        )
    if status.st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def lock_file(name: str) -> Path:
    """Return the path of the file whose lock protects a managed environment against changes. It need not exist.

    Args:
        name: The environment's name, `FRAMEWORK-DEVICE-KEY`.

    Raises:
        EnvironmentFailed: The folder for managed environments cannot be made or used.
    """
    return home() / f"{name}.lock"


def obtain(recipe: Recipe, on_progress: Progress) -> PreparedEnvironment:
    """Return the managed environment of a recipe: the existing one if it is complete, else a new one.

    The function waits while another process makes the environment. If the environment must be made anew, the function
    also waits while another process uses it.

    Args:
        recipe: The interpreter, requirements and options that the environment is made from.
        on_progress: Called with a line of text when a step begins.

    Raises:
        EnvironmentFailed: The environment cannot be made; its folder has been removed.
        PluginError: A requirement of the plugin is invalid.
        OSError: The environment's folder cannot be written; it has been removed.
    """
    folder = home() / recipe.name
    lock = lock_file(recipe.name)

    def waiting() -> None:
        on_progress(f"waiting for {describe_holder(lock)}, which is making or using {recipe.name}")

    # The lock is shared first, so that a complete environment is found at once while a long run uses it.
    with hold_lock(lock, shared=True, waiting=waiting):
        environment = _read_complete(folder, on_progress)
        if environment:
            return environment
    with hold_lock(lock, shared=False, waiting=waiting) as descriptor:
        try:
            return _read_complete(folder, None) or _make(recipe, folder, descriptor, on_progress)
        finally:
            if not folder.exists():
                lock.unlink(missing_ok=True)


@contextmanager
def use_environment(environment: PreparedEnvironment) -> Iterator[None]:
    """Return a context manager that locks a managed environment, so that it is neither removed nor replaced meanwhile.

    On entry, it waits while another process makes or replaces the environment, and records the time as that of the last
    use. For other kinds of environment, it does nothing.

    Args:
        environment: The environment, as `prepare` returns it.

    Raises:
        EnvironmentFailed: The environment has been removed or replaced since it was prepared.
    """
    if environment.kind != MANAGED:
        yield
        return
    removed = (
        f"The managed environment {environment.path.name} has been removed since it was prepared. Run again: "
        "it is made anew."
    )
    if not environment.path.is_dir():
        raise EnvironmentFailed(removed)
    with hold_lock(lock_file(environment.path.name), shared=True, waiting=lambda: None):
        contents = marker.read(environment.path)
        if contents is None or contents.lock != environment.lock:
            raise EnvironmentFailed(removed)
        marker.touch(environment.path)
        yield


def obtain_with_lock(
    framework: str, device: str, minor: str, lock: str, on_progress: Progress
) -> PreparedEnvironment | None:
    """Return a complete managed environment that has exactly the versions of a lock; None if there is none.

    If the marker file of an environment states these versions, the environment's interpreter is started to check its
    contents. The use of the returned environment is recorded. The function waits while another process makes or
    replaces such an environment.

    Args:
        framework: The framework of the environment.
        device: The kind of device.
        minor: The minor version of Python, such as `3.11`.
        lock: The exact versions, one `NAME==VERSION` per line, sorted.
        on_progress: Called with a line of text about an environment that is reused or has changed.

    Raises:
        EnvironmentFailed: The folder of environments cannot be used.
    """
    for folder in sorted(home().iterdir()):
        metadata = marker.read(folder) if folder.is_dir() else None
        if metadata is None or (metadata.framework, metadata.device) != (framework, device):
            continue
        if metadata.lock == lock and metadata.python.split(".")[:2] == minor.split("."):
            with hold_lock(lock_file(folder.name), shared=True, waiting=lambda: None):
                environment = _read_complete(folder, on_progress)
            if environment and environment.lock == lock:
                return environment
    return None


def interpreter_path(folder: Path) -> Path:
    """Return the path of the interpreter in a managed environment's folder."""
    return folder / "venv" / "bin" / "python"


def _read_complete(folder: Path, on_progress: Progress | None) -> PreparedEnvironment | None:
    """Return the environment in a folder if it is complete: marked, runnable, and with the marker's contents."""
    metadata = marker.read(folder)
    if metadata is None:
        return None
    try:
        facts = probe.probe_facts(interpreter_path(folder), worker_variables({}, os.environ))
    except EnvironmentFailed:
        facts = None
    if facts is None or facts.lock != metadata.lock:
        if on_progress:
            on_progress(f"{folder.name} has changed since it was made; making it again")
        return None
    if on_progress:
        on_progress(f"reusing {folder.name}, made {metadata.created_at}")
    marker.touch(folder)
    return _make_environment(folder, metadata)


def _make(recipe: Recipe, folder: Path, lock: int, on_progress: Progress) -> PreparedEnvironment:
    if folder.exists():
        on_progress(f"removing what is left of {recipe.name}")
        shutil.rmtree(folder)
    on_progress(f"making {recipe.name} with Python {recipe.interpreter.version} ({recipe.interpreter.path})")
    folder.mkdir(mode=0o700)
    try:
        settings = pip_settings.convert_for_uv(
            pip_settings.read(os.environ, Path(sys.prefix)), os.environ, Path.cwd()
        )
        return _fill(recipe, Installer(settings, folder, lock, on_progress))
    except BaseException:  # Ctrl-C as well: an incomplete environment is useless
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _fill(recipe: Recipe, installer: Installer) -> PreparedEnvironment:
    """Install what a recipe names, check the result, and mark the folder as complete."""
    folder = installer.folder
    source_builds.check_programs(recipe.source_builds)
    resolved = _resolve(recipe, installer)
    _install(recipe, resolved, installer)
    facts = probe.probe_facts(interpreter_path(folder), worker_variables({}, os.environ))
    problems = probe.list_unmet(recipe.requirements, recipe.device, facts)
    if problems:
        raise EnvironmentFailed(
            f"The environment of {recipe.framework} for {recipe.device} was installed, but does not meet "
            f"its requirements: {'; '.join(problems)}. The environment was removed. The plugin's lock and "
            "requirements disagree, or the index holds a broken distribution."
        )
    metadata = Marker(
        framework=recipe.framework,
        device=recipe.device,
        python=facts.version,
        key=recipe.key,
        lock=facts.lock,
        requirements=tuple(redact(text, installer.settings.secrets) for text in recipe.requirements),
        options=tuple(redact(text, installer.settings.secrets) for text in resolved.options),
        source_builds=recipe.described_builds,
        size=measure_size(folder),
        created_at=now(),
    )
    marker.write(folder, metadata)
    installer.on_progress(
        f"made {recipe.name}: {len(facts.installed)} distributions, {metadata.size / 1e6:.0f} MB"
    )
    return _make_environment(folder, metadata)


def _resolve(recipe: Recipe, installer: Installer) -> resolution.Resolution:
    """Resolve everything but what is built from source."""
    requirements = source_builds.exclude(recipe.source_builds, recipe.requirements)
    lock = (
        None
        if recipe.lock is None
        else "\n".join(source_builds.exclude(recipe.source_builds, plugin_lock.join_lines(recipe.lock)))
        + "\n"
    )
    listed = redact(", ".join(requirements[:4]), installer.settings.secrets)
    installer.on_progress(f"resolving {listed}{', …' if len(requirements) > 4 else ''}")
    return resolution.resolve(
        requirements,
        lock,
        recipe.uv_options,
        requested=recipe.requested,
        exact=recipe.exact,
        framework=recipe.framework,
        device=recipe.device,
        interpreter=recipe.interpreter,
        installer=installer,
    )


def _install(recipe: Recipe, resolved: resolution.Resolution, installer: Installer) -> None:
    """Make the virtual environment, install what was resolved, and build the rest; remove the working files."""
    folder, python = installer.folder, interpreter_path(installer.folder)
    pins = folder / "requirements.txt"
    resolved.write(pins)
    installer.on_progress(f"installing {len(resolved.pins)} distributions")
    try:
        installer.venv(recipe.interpreter.path, folder / "venv")
        # The versions are decided; the lock is a constraint only so that uv checks its hashes.
        hashes = [] if recipe.lock is None else ["--constraint", str(folder / resolution.LOCK)]
        command = ["install", "--python", str(python), "--no-deps", "--requirement", str(pins)]
        installer.pip(*command, *hashes, *resolved.options)
        for build in recipe.source_builds:
            source_builds.install(build, recipe.requirements, python, installer)
    except UvFailed as error:
        raise EnvironmentFailed(
            f"The environment of {recipe.framework} for {recipe.device} could not be installed, and was "
            f"removed again. uv said: {error}"
        ) from error
    finally:
        for scratch in ("requirements.in", resolution.LOCK, "resolved.txt", "requirements.txt"):
            (folder / scratch).unlink(missing_ok=True)  # addresses in them may hold credentials


def measure_size(folder: Path) -> int:
    """Return the total size in bytes of all files in a folder and below it. A file with several links counts once.

    Files that uv shares with its cache through hard links are included. A file that is removed meanwhile is left out.
    """
    total, seen_inodes = 0, set()
    for parent, _, files in os.walk(folder):
        for name in files:
            try:
                status = (Path(parent) / name).lstat()
            except FileNotFoundError:
                continue
            if (status.st_dev, status.st_ino) not in seen_inodes:
                seen_inodes.add((status.st_dev, status.st_ino))
                total += status.st_size
    return total


def _make_environment(folder: Path, metadata: Marker) -> PreparedEnvironment:
    return PreparedEnvironment(
        kind=MANAGED,
        framework=metadata.framework,
        device=metadata.device,
        python=metadata.python,
        lock=metadata.lock,
        command=(str(interpreter_path(folder)),),
        key=metadata.key,
        path=folder,
    )
