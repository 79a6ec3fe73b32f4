"""List the user's data folder, and reject links that lead out of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dlperf_sdk import folders
from dlperf_sdk.errors import DocumentError, Unavailable


class File(NamedTuple):
    """One file of a data source's folder: its name, and the properties that show whether it has changed."""

    name: str
    """Name of the file in its folder."""
    size: int
    """Size in bytes."""
    modified: int
    """Time of modification in nanoseconds since the epoch."""


def resolve_folder(folder: str, source: str) -> Path:
    """Return the path of a data source's folder, with `~` expanded and all links resolved.

    Args:
        folder: The folder, as the user wrote it.
        source: The source's name, for messages.

    Raises:
        Unavailable: The folder does not exist, or is not a folder.
    """
    path = folders.expand_home(folder)
    if not path.is_dir():
        problem = "is not a folder" if path.exists() else "does not exist"
        raise Unavailable(
            f"The folder of data={source}:{folder} {problem}. Name the one that holds the data."
        )
    return path.resolve()


def entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    """Return the entries of a folder, sorted by name, without hidden ones.

    Raises:
        Unavailable: The folder cannot be read.
    """
    try:
        with os.scandir(folder) as scan:
            listed = sorted(scan, key=lambda entry: entry.name)
    except OSError as error:
        raise Unavailable(
            f"The folder {folder} cannot be read: {error.strerror}. Check its permissions."
        ) from error
    return (entry for entry in listed if not entry.name.startswith("."))


def _check_inside(root: Path, entry: os.DirEntry[str]) -> None:
    """Check that an entry of a folder is not a link that leads out of the root.

    Args:
        root: The data's folder, resolved.
        entry: The entry, of this folder or one below it.

    Raises:
        DocumentError: It is such a link.
    """
    if entry.is_symlink():
        target = Path(os.path.realpath(entry.path))
        if not target.is_relative_to(root):
            raise DocumentError(
                f"{entry.path} is a link to {target}, outside the data's folder {root}. Put the file itself "
                "there, or name a folder that holds both."
            )


def files(root: Path, folder: Path, suffixes: tuple[str, ...]) -> list[File]:
    """Return the files of a folder whose names end in one of the suffixes, in lower or upper case, sorted by name.

    Hidden files are left out.

    Args:
        root: Absolute path of the data's folder, without links.
        folder: The folder to list: the root, or one below it.
        suffixes: Suffixes in lower case, such as `.jpg`.

    Raises:
        Unavailable: The folder, or a file's entry, cannot be read.
        DocumentError: A file with such a suffix is a link that leads out of the root, or is not a regular file.
    """
    listed = []
    for entry in entries(folder):
        if not entry.name.lower().endswith(suffixes):
            continue
        _check_inside(root, entry)
        if not entry.is_file():
            # Reading a named pipe would block forever.
            raise DocumentError(
                f"{entry.path} is not a regular file. Remove it, or replace it by the file itself."
            )
        try:
            status = entry.stat()
        except OSError as error:
            raise Unavailable(f"{entry.path} cannot be read: {error.strerror}.") from error
        listed.append(File(entry.name, status.st_size, status.st_mtime_ns))
    return listed


def subfolders(root: Path, folder: Path) -> list[str]:
    """Return the names of the folders in a folder, sorted, without hidden ones.

    Args:
        root: Absolute path of the data's folder, without links.
        folder: The folder to list: the root, or one below it.

    Raises:
        Unavailable: The folder cannot be read.
        DocumentError: A folder in it is a link that leads out of the root.
    """
    names = []
    for entry in entries(folder):
        if entry.is_dir():
            _check_inside(root, entry)
            names.append(entry.name)
    return names
