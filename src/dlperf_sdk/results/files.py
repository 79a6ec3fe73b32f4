"""Files that appear whole or not at all, in directories that no symbolic link leads out of."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dlperf_sdk.errors import StoreError


@contextmanager
def explain_os_errors(path: Path, option: str = "--output") -> Iterator[None]:
    """Raise a StoreError with advice in place of an OSError about `path`; `option` sets another place."""
    try:
        yield
    except OSError as error:
        advice = {
            errno.ENOSPC: "make room on its disk",
            errno.EDQUOT: "make room in your quota",
            errno.EEXIST: f"what stands there is no directory; choose one with {option}",
            errno.ENOTDIR: f"part of it is no directory; choose one with {option}",
            errno.ELOOP: "a symbolic link stands there, and results are not written through links: remove it",
        }.get(error.errno or 0, f"choose another directory with {option}, or mend its permissions")
        raise StoreError(f"{path} cannot be written: {error.strerror or error}; {advice}.") from error


@contextmanager
def directory_of(root: Path, folder: tuple[str, ...]) -> Iterator[int]:
    """Open a descriptor of the directory of these names below `root`, created if missing, refused if it is a link.

    The context closes it.
    """
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in folder:
            try:
                os.mkdir(name, mode=0o700, dir_fd=descriptor)
            except FileExistsError:
                pass
            else:
                _settle(descriptor)
            if stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            deeper = os.open(name, flags, dir_fd=descriptor)
            # In this order an interruption in between closes no descriptor twice: that would be an error of the store.
            parent, descriptor = descriptor, deeper
            os.close(parent)
        yield descriptor
    finally:
        os.close(descriptor)


def write_whole(directory: int, name: str, data: bytes, mode: int = 0o600) -> None:
    """Write a file beside its name, then rename it: a reader, or a crash, sees the old file or the new one.

    Args:
        directory: A descriptor of the directory.
        name: The file's name.
        data: Its content.
        mode: Its permissions, from which the user's umask takes what it takes from every file.
    """
    partial = f".{name}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(partial, flags, mode, dir_fd=directory), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(partial, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        remove(directory, partial)
        raise
    _settle(directory)


def append(directory: int, name: str, data: bytes, largest: int) -> bool:
    """Append to a file; return False, and write nothing, if it would exceed `largest` bytes.

    `directory` is a descriptor of the directory that holds the file `name`.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=directory), "ab") as file:
        fits = os.fstat(file.fileno()).st_size + len(data) <= largest
        if fits:
            file.write(data)
    return fits


def _settle(directory: int) -> None:
    """Make the directory's entries durable; file systems that cannot do that say EINVAL."""
    try:
        os.fsync(directory)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


def remove(directory: int, name: str) -> None:
    """Remove a file, if it exists, from the directory of this descriptor."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
