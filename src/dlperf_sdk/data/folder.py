"""The user's folder: what is in it, and nothing that only pretends to be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dlperf_sdk import folders
from dlperf_sdk.errors import DocumentError, Unavailable


class File(NamedTuple):
    """One file: its name, and what tells whether it has changed."""

    name: str
    size: int
    modified: int
    """In nanoseconds."""


def resolve_folder(folder: str, source: str) -> Path:
    """Return the folder of a data source with all links resolved; `source` names the source in messages.

    Raises:
        Unavailable: it does not exist, or is not a folder.
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
        Unavailable: the folder cannot be read.
    """
    try:
        with os.scandir(folder) as scan:
            listed = sorted(scan, key=lambda entry: entry.name)
    except OSError as error:
        raise Unavailable(
            f"The folder {folder} cannot be read: {error.strerror}. Check its permissions."
        ) from error
    return (entry for entry in listed if not entry.name.startswith("."))


def check_inside(root: Path, entry: os.DirEntry[str]) -> None:
    """Check that an entry of a folder is no link that leads out of the root.

    Raises:
        DocumentError: it is such a link.
    """
    if entry.is_symlink():
        target = Path(os.path.realpath(entry.path))
        if not target.is_relative_to(root):
            raise DocumentError(
                f"{entry.path} is a link to {target}, outside the data's folder {root}. Put the file itself "
                "there, or name a folder that holds both."
            )


def files(root: Path, folder: Path, suffixes: tuple[str, ...]) -> list[File]:
    """Return the files of a folder whose names end in one of the suffixes, in any case; sorted by name.

    Raises:
        Unavailable: the folder, or a file's entry, cannot be read.
        DocumentError: such a name is a link out of the root, or is no regular file.
    """
    listed = []
    for entry in entries(folder):
        if not entry.name.lower().endswith(suffixes):
            continue
        check_inside(root, entry)
        if not entry.is_file():
            # A named pipe would be waited on for ever.
            raise DocumentError(f"{entry.path} is no regular file. Remove it, or put the file itself there.")
        try:
            status = entry.stat()
        except OSError as error:
            raise Unavailable(f"{entry.path} cannot be read: {error.strerror}.") from error
        listed.append(File(entry.name, status.st_size, status.st_mtime_ns))
    return listed


def subfolders(root: Path, folder: Path) -> list[str]:
    """Return the names of the folders in a folder, sorted.

    Raises:
        Unavailable: the folder cannot be read.
        DocumentError: one is a link out of the root.
    """
    names = []
    for entry in entries(folder):
        if entry.is_dir():
            check_inside(root, entry)
            names.append(entry.name)
    return names
