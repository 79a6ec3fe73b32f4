"""The file that marks a managed environment as complete: it is written last, and read first."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.documents.reading import read_file
from dlperf_sdk.errors import DocumentError

FILE = "environment.json"
VERSION = 1
_LARGEST = 16 << 20
"""Maximum size of the file in bytes."""


@frozen
class Marker:
    """Facts about a managed environment. The modification time of its file is the time of the last use."""

    framework: str
    """The framework."""
    device: str
    """Kind of the devices."""
    python: str
    """The version of Python, such as `3.11.7`."""
    key: str
    """The hash of what the environment was made from."""
    lock: str
    """Exact versions of everything installed, as in `PreparedEnvironment.lock`."""
    requirements: tuple[str, ...]
    """The requirements that the environment was made from, without credentials."""
    options: tuple[str, ...]
    """The extra arguments for uv that were needed, without credentials."""
    size: int
    """Bytes of all files when it was made."""
    created_at: str
    """Time of creation: UTC, ISO 8601."""
    source_builds: tuple[str, ...] = ()
    """Name and variables of each distribution that was built from source."""


def write(folder: Path, marker: Marker) -> None:
    """Write the marker into the folder of a managed environment in one step: a reader sees all of it or nothing.

    Args:
        folder: The environment's folder.
        marker: Facts about the environment.

    Raises:
        OSError: The marker cannot be written.
    """
    text = json.dumps({"version": VERSION, **attrs.asdict(marker)}, indent=2, ensure_ascii=False) + "\n"
    new = folder / f".{FILE}.{os.getpid()}"
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(folder / FILE)


def read(folder: Path) -> Marker | None:
    """Return the marker in the folder of a managed environment.

    The result is None if there is none, or if it is invalid or of another version.
    """
    try:
        plain: Any = json.loads(read_file(folder / FILE, _LARGEST).decode())
        if not isinstance(plain, dict) or plain.pop("version", None) != VERSION:
            return None
        for name in ("requirements", "options", "source_builds"):
            plain[name] = tuple(plain.get(name, ()))
        marker = Marker(**plain)
        datetime.fromisoformat(marker.created_at)
    except (DocumentError, ValueError, KeyError, TypeError, RecursionError):
        return None
    texts = (marker.framework, marker.device, marker.python, marker.key, marker.lock, marker.created_at)
    listed = (*marker.requirements, *marker.options, *marker.source_builds)
    is_complete = isinstance(marker.size, int) and all(isinstance(text, str) for text in (*texts, *listed))
    return marker if is_complete else None


def touch(folder: Path) -> None:
    """Set the time of the last use of the managed environment in `folder` to now.

    Raises:
        OSError: The folder has no marker.
    """
    os.utime(folder / FILE)


def read_last_use(folder: Path) -> str | None:
    """Return when the managed environment in `folder` was last used: UTC, ISO 8601; None if it has no marker."""
    try:
        stamp = (folder / FILE).stat().st_mtime
    except FileNotFoundError:
        return None
    return datetime.fromtimestamp(stamp, UTC).isoformat(timespec="seconds")
