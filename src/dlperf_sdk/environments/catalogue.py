"""List the managed environments, and remove them."""

from __future__ import annotations

import shutil
from pathlib import Path

from attrs import frozen

from dlperf_sdk.environments import marker
from dlperf_sdk.environments.managed import home, lock_file, measure_size
from dlperf_sdk.errors import EnvironmentFailed, UnknownName
from dlperf_sdk.private_files import Locked, describe_holder, hold_lock


@frozen
class ManagedEnvironment:
    """One managed environment, as `dlperf env list` shows it."""

    name: str
    """Name of the environment and of its folder, `FRAMEWORK-DEVICE-KEY`."""
    framework: str
    """The framework."""
    device: str
    """Kind of the devices."""
    python: str | None
    """The version of Python; None for an incomplete environment."""
    size: int
    """Bytes of its files."""
    created_at: str | None
    """Time of creation: UTC, ISO 8601; None for one that is incomplete, or being made right now."""
    last_used: str | None
    """Time of the last use: UTC, ISO 8601; None for one that is incomplete, or being removed right now."""
    path: Path
    """The folder."""

    @property
    def complete(self) -> bool:
        """True if the environment is complete and can be used."""
        return self.created_at is not None


def list_environments() -> list[ManagedEnvironment]:
    """Return the managed environments, complete or not, sorted by name.

    Raises:
        EnvironmentFailed: The folder of the environments cannot be created or written, or belongs to another user.
    """
    return [_describe(folder) for folder in sorted(home().iterdir()) if folder.is_dir()]


def _describe(folder: Path) -> ManagedEnvironment:
    metadata = marker.read(folder)
    if metadata is None:
        framework, device, _ = [*folder.name.rsplit("-", 2), "", ""][:3]
        return ManagedEnvironment(
            folder.name, framework, device, None, measure_size(folder), None, None, folder
        )
    return ManagedEnvironment(
        name=folder.name,
        framework=metadata.framework,
        device=metadata.device,
        python=metadata.python,
        size=metadata.size,
        created_at=metadata.created_at,
        last_used=marker.read_last_use(folder),
        path=folder,
    )


def remove(name: str) -> None:
    """Remove a managed environment with its lock file.

    Args:
        name: The environment's name, `FRAMEWORK-DEVICE-KEY`.

    Raises:
        UnknownName: There is no environment of this name.
        EnvironmentFailed: The environment is being made or used right now (the message names the processes), or its
            folder could not be removed.
    """
    known = [environment.name for environment in list_environments()]
    if name not in known:
        raise UnknownName("managed environment", name, known)
    folder, lock = home() / name, lock_file(name)
    try:
        with hold_lock(lock, shared=False, waiting=None):
            # The marker is removed first: after an interruption, the rest is known to be incomplete.
            (folder / marker.FILE).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
            if folder.exists():
                raise EnvironmentFailed(
                    f"The managed environment {name} could not be removed; {folder} is still there."
                )
            lock.unlink(missing_ok=True)
    except Locked as error:
        raise EnvironmentFailed(
            f"The managed environment {name} is in use by {describe_holder(lock)}, so it was not removed. Remove it "
            "when that has ended."
        ) from error
