"""The managed environments that there are, and their removal."""

from __future__ import annotations

import shutil
from pathlib import Path

from attrs import frozen

from dlperf_sdk.environments import marker
from dlperf_sdk.environments.locking import Locked, describe_holder, hold_lock
from dlperf_sdk.environments.managed import home, lock_file, measure_size
from dlperf_sdk.errors import EnvironmentFailed, UnknownName


@frozen
class ManagedEnvironment:
    """One of the managed environments, as `env list` shows it."""

    name: str
    framework: str
    device: str
    python: str | None
    """The version of Python; None for one that is half-made."""
    size: int
    """Bytes of its files."""
    created_at: str | None
    """UTC, ISO 8601; None for one that is half-made, or being made right now."""
    last_used: str | None
    path: Path

    @property
    def complete(self) -> bool:
        """Return True if the environment is complete and can be used."""
        return self.created_at is not None


def list_environments() -> list[ManagedEnvironment]:
    """List the managed environments, complete or not, sorted by name.

    Raises:
        EnvironmentFailed: their folder cannot be read.
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
    """Remove a managed environment.

    Raises:
        UnknownName: there is none of that name.
        EnvironmentFailed: it is being made or used right now; names the processes.
    """
    known = [environment.name for environment in list_environments()]
    if name not in known:
        raise UnknownName("managed environment", name, known)
    folder, lock = home() / name, lock_file(name)
    try:
        with hold_lock(lock, shared=False, waiting=None):
            # The marker goes first: if this is interrupted, what is left is known to be incomplete.
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
