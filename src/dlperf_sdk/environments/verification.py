"""Verify the files of a managed environment against recorded hashes, and install damaged distributions again.

The hashes are those that each installed distribution has in its RECORD; the versions are those in the marker.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen
from packaging.utils import InvalidName, canonicalize_name

from dlperf_sdk.documents.reading import read_file
from dlperf_sdk.environments import marker, pip_settings
from dlperf_sdk.environments.installer import Installer, Progress, UvFailed
from dlperf_sdk.environments.managed import home, interpreter_path, lock_file
from dlperf_sdk.environments.marker import Marker
from dlperf_sdk.errors import DocumentError, EnvironmentFailed, UnknownName
from dlperf_sdk.private_files import Locked, describe_holder, hold_lock

_BLOCK = 1 << 20
_LARGEST_RECORD = 16 << 20


@frozen
class DamagedFile:
    """A file of an environment that differs from the installed one."""

    distribution: str
    """`NAME==VERSION`."""
    path: str
    """Its path in the environment's folder; empty if the distribution as a whole is damaged."""
    reason: str
    """A predicate: `is missing`, `differs from its recorded hash`, …."""

    def __str__(self) -> str:
        return f"{self.path or self.distribution} {self.reason}"


def verify(name: str) -> tuple[DamagedFile, ...]:
    """Return the damaged files of a managed environment; empty if its files are as installed.

    Files without a recorded hash, such as bytecode, are not checked.

    Args:
        name: The environment's name, `FRAMEWORK-DEVICE-KEY`.

    Raises:
        UnknownName: There is no environment of this name.
        EnvironmentFailed: The environment is incomplete, has no interpreter, or is being made right now.
    """
    with _hold_lock(name, shared=True) as (metadata, _):
        return _list_damaged_files(home() / name, metadata)


def repair(name: str, on_progress: Progress = lambda text: None) -> tuple[DamagedFile, ...]:
    """Install the distributions of damaged files again, in the same versions; return the files that were damaged.

    Args:
        name: The environment's name, `FRAMEWORK-DEVICE-KEY`.
        on_progress: Called with a line of text when an installation begins, and with uv's messages.

    Returns:
        The files; empty if there was no damage. In this case, nothing is installed.

    Raises:
        UnknownName: There is no environment of this name.
        EnvironmentFailed: The environment is incomplete, in use or without an interpreter; a distribution cannot be
            installed or was built from source; or the damage remains.
    """
    with _hold_lock(name, shared=False) as (metadata, descriptor):
        folder = home() / name
        damaged = _list_damaged_files(folder, metadata)
        if not damaged:
            return ()
        advice = f"Make it anew: `dlperf env remove {name}`, then `dlperf env create {metadata.framework}`."
        pins = sorted({file.distribution for file in damaged})
        built = {text.partition(" ")[0] for text in metadata.source_builds}
        if built & {canonicalize_name(pin.partition("==")[0]) for pin in pins}:
            raise EnvironmentFailed(
                f"{name} cannot be repaired, because {', '.join(sorted(built))} was built from source in it. {advice}"
            )
        on_progress(f"installing again: {', '.join(pins)}")
        settings = pip_settings.convert_for_uv(
            pip_settings.read(os.environ, Path(sys.prefix)), os.environ, Path.cwd()
        )
        installer = Installer(settings, folder, descriptor, on_progress)
        # Without uv's cache: its files are hard links to the environment's, so they may be damaged, too.
        command = (
            "install",
            "--python",
            str(interpreter_path(folder)),
            "--no-deps",
            "--reinstall",
            "--no-cache",
        )
        try:
            installer.pip(*command, *pins, *metadata.options)
        except UvFailed as error:
            raise EnvironmentFailed(f"{name} could not be repaired. uv said: {error} {advice}") from error
        remaining = _list_damaged_files(folder, metadata)
        if remaining:
            raise EnvironmentFailed(f"{name} is still damaged after the repair: {remaining[0]}. {advice}")
        return damaged


@contextmanager
def _hold_lock(name: str, *, shared: bool) -> Iterator[tuple[Marker, int]]:
    """Hold an environment's lock; the value is its marker and the lock's descriptor."""
    known = sorted(folder.name for folder in home().iterdir() if folder.is_dir())
    if name not in known:
        raise UnknownName("managed environment", name, known)
    try:
        with hold_lock(lock_file(name), shared=shared, waiting=None) as descriptor:
            metadata = marker.read(home() / name)
            if metadata is None:
                raise EnvironmentFailed(
                    f"The managed environment {name} is half-made. The next run makes it anew."
                )
            interpreter = interpreter_path(home() / name)
            if not os.access(interpreter, os.X_OK):
                raise EnvironmentFailed(
                    f"The managed environment {name} has no interpreter that can be executed at {interpreter}. "
                    "Perhaps the Python that it was made with was removed. Make it anew: "
                    f"`dlperf env remove {name}`, then `dlperf env create {metadata.framework}`."
                )
            yield metadata, descriptor
    except Locked as error:
        raise EnvironmentFailed(
            f"The managed environment {name} is in use by {describe_holder(lock_file(name))}. Try again when "
            "that has ended."
        ) from error


def _list_damaged_files(folder: Path, environment: Marker) -> tuple[DamagedFile, ...]:
    """Return the files that differ from their distributions' records, and the locked distributions without a record."""
    pins = {
        canonicalize_name(line.partition("==")[0]): line.partition("#")[0].strip()
        for line in environment.lock.splitlines()
    }
    damaged: list[DamagedFile] = []
    recorded = set()
    for metadata in sorted((folder / "venv" / "lib").glob("python*/site-packages/*.dist-info")):
        name, _, version = metadata.name.removesuffix(".dist-info").rpartition("-")
        try:
            normalized = canonicalize_name(name, validate=True)
            record = read_file(metadata / "RECORD", _LARGEST_RECORD).decode()
            rows = list(csv.reader(record.splitlines()))
        except InvalidName:
            continue  # no installed distribution; uv could take its name for an option
        except (DocumentError, UnicodeDecodeError, csv.Error):
            continue  # without a readable RECORD
        if not any(row[:1] == [f"{metadata.name}/RECORD"] for row in rows):
            continue  # a whole RECORD lists itself; after a crash it may be empty
        recorded.add(normalized)
        pin = pins.get(normalized, f"{name}=={version}")
        for row in rows:
            reason = _describe_damage(metadata.parent, row)
            if reason is not None:
                path = os.path.relpath(os.path.normpath(metadata.parent / "".join(row[:1])), folder)
                damaged.append(DamagedFile(pin, path, reason))
    missing = (pin for name, pin in pins.items() if name not in recorded)
    return (*damaged, *(DamagedFile(pin, "", "has no readable RECORD of its files") for pin in missing))


def _describe_damage(root: Path, row: list[str]) -> str | None:
    """Return the damage of the file in a RECORD row `path,algorithm=hash,size`; None if it is intact or has no hash."""
    if len(row) != 3:
        return "has a malformed entry in RECORD"
    path, (algorithm, _, expected) = root / row[0], row[1].partition("=")
    if not expected:
        return None  # RECORD itself, and bytecode
    try:
        if not path.is_file():  # a device or a pipe would be read without end
            return "is not a regular file" if path.exists() else "is missing"
        digest = hashlib.new(algorithm)
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
        actual = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except (ValueError, TypeError):  # unknown, or of a length that the reader chooses, such as shake_128
        return f"has a hash of the unknown algorithm {algorithm!r}"
    return None if actual == expected.rstrip("=") else "differs from its recorded hash"
