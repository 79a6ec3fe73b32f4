"""Files that appear whole or not at all, in directories that no symbolic link leaves."""

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
    """Return a context manager whose block raises a `StoreError` with advice in place of an `OSError`.

    Args:
        path: Path of the file or directory that is written in the block; the message names it.
        option: The command-line option with which the user chooses another place; the advice names it.

    Raises:
        StoreError: On leaving the block, in place of an `OSError`.
    """
    try:
        yield
    except OSError as error:
        advice = {
            errno.ENOSPC: "make room on its disk",
            errno.EDQUOT: "make room in your quota",
            errno.EFBIG: "raise `ulimit -f`",
            errno.EEXIST: f"the path is not a directory; choose one with {option}",
            errno.ENOTDIR: f"part of the path is not a directory; choose one with {option}",
            errno.ELOOP: "the path is a symbolic link, and results are not written through links: remove it",
        }.get(error.errno or 0, f"choose another directory with {option}, or mend its permissions")
        raise StoreError(f"{path} cannot be written: {error.strerror or error}; {advice}.") from error


def check_replaceable(path: Path) -> None:
    """Check that a file may be written at a path: that there is no pipe, socket or device, nor a link to one.

    A free path, a regular file and a directory pass.

    Raises:
        StoreError: A pipe, a socket or a device is there.
        OSError: It cannot be determined what is there, such as for want of permission.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise StoreError(
                f"{path} is not a regular file, but a pipe or a device. Name another file with --output."
            )


@contextmanager
def directory_of(root: Path, folder: tuple[str, ...]) -> Iterator[int]:
    """Return a context manager that yields an open descriptor of a directory below `root`, and closes it at the end.

    Missing directories are created, with the mode 0700, and made durable.

    Args:
        root: An existing directory.
        folder: Names of the nested directories, the outermost first; empty for `root` itself.

    Raises:
        OSError: A directory cannot be opened or created, or a name is a symbolic link (`errno.ELOOP`).
    """
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in folder:
            try:
                os.mkdir(name, mode=0o700, dir_fd=descriptor)
            except FileExistsError:
                pass
            else:
                make_durable(descriptor)
            if stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            deeper = os.open(name, flags, dir_fd=descriptor)
            # In this order, an interruption cannot close a descriptor twice.
            parent, descriptor = descriptor, deeper
            os.close(parent)
        yield descriptor
    finally:
        os.close(descriptor)


def write_whole(directory: int, name: str, data: bytes, mode: int = 0o600) -> None:
    """Write a file under a temporary name, make it durable, and rename it.

    A file of that name is replaced. A reader, also after a crash, sees the old file or the whole new one. If writing
    fails, the temporary file is removed.

    Args:
        directory: An open descriptor of the directory.
        name: The file's name.
        data: The content.
        mode: The permissions, reduced by the user's umask; by default, only the owner may read and write the file.

    Raises:
        OSError: The file cannot be written.
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
    make_durable(directory)


def append(directory: int, name: str, data: bytes, largest: int) -> bool:
    """Append data to a file, or nothing if the file would then exceed its maximum size.

    A missing file is created with the mode 0600. The data is not made durable: a crash may lose it.

    Args:
        directory: An open descriptor of the directory.
        name: The file's name.
        data: The bytes to append.
        largest: Maximum size of the file in bytes.

    Returns:
        True if the data was written, False if it did not fit.

    Raises:
        OSError: The file cannot be written, or is a symbolic link.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=directory), "ab") as file:
        fits = os.fstat(file.fileno()).st_size + len(data) <= largest
        if fits:
            file.write(data)
    return fits


def make_durable(directory: int) -> None:
    """Make the entries of a directory (created, renamed or removed files) survive a crash of the machine.

    File systems that cannot do that are no error.

    Args:
        directory: An open descriptor of the directory.

    Raises:
        OSError: The entries cannot be written.
    """
    try:
        os.fsync(directory)
    except OSError as error:
        if error.errno != errno.EINVAL:  # the answer of file systems that cannot do it
            raise


def remove(directory: int, name: str) -> None:
    """Remove the file `name` from a directory if it exists; `directory` is an open descriptor.

    Raises:
        OSError: The file exists and cannot be removed.
    """
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
