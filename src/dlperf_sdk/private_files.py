"""Files that only their owner can read: written in one step, and locked between processes.

A lock is `flock` on a file. The kernel releases it when the last process that holds it ends, for whatever reason.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def write(path: Path, content: bytes) -> None:
    """Write a file in one step, so that a reader sees all of it or nothing. Only its owner can read it.

    An existing file is replaced.

    Args:
        path: The file, in an existing directory.
        content: The complete content.

    Raises:
        OSError: The file cannot be written; no part of it remains.
    """
    # mkstemp creates the file with mode 0600.
    number, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


class Locked(Exception):
    """Another process holds the lock, and the caller does not wait for it."""


@contextmanager
def hold_lock(path: Path, *, shared: bool, waiting: Callable[[], None] | None) -> Iterator[int]:
    """Return a context manager in which this process holds a lock on a file; its value is the file descriptor.

    The file is created if it does not exist, and stays afterwards.

    Args:
        path: The file to lock.
        shared: True if other processes may hold a shared lock at the same time.
        waiting: Function without arguments that is called before this process waits for another holder; None to raise
            instead of waiting.

    Raises:
        Locked: Another process holds the lock, and `waiting` is None.
        OSError: The file cannot be opened, or is a symbolic link.
    """
    descriptor = _acquire(path, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, waiting)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _acquire(path: Path, kind: int, waiting: Callable[[], None] | None) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if waiting is None:
                    raise Locked from error
                waiting()
                fcntl.flock(descriptor, kind)
            # What a lock guards may be removed together with its lock file. A lock on a removed file excludes no
            # other process, so check that the path still names this file.
            if _names(path, descriptor):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _names(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def list_holders(path: Path) -> list[int]:
    """Return the sorted ids of the running processes that hold a lock on a file, according to `/proc/locks`.

    This table of the kernel names the process that took the lock. The list is empty if that process has ended, even
    if a child of it still holds the lock. It is also empty if the file does not exist or the table cannot be read.
    """
    try:
        inode = path.stat().st_ino
        table = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    process_ids = set()
    for line in table:
        fields = line.split()
        # 1: FLOCK ADVISORY WRITE 4711 fd:01:12345 0 EOF; a waiting one has '->' in second place
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == str(inode):
            process_ids.add(int(fields[4]))
    return sorted(process for process in process_ids if Path(f"/proc/{process}").exists())


def describe_holder(path: Path) -> str:
    """Return a text that names the processes which hold the lock on a file: `process 4711 and process 4712`.

    The text is `another process` if no holder is known.
    """
    return " and ".join(f"process {process}" for process in list_holders(path)) or "another process"
