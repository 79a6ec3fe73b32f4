"""Private directories for temporary files: those whose owner was killed are removed by the next process that needs one.

An owner holds a lock on the file `lock` inside, which the kernel releases when the owner ends, for whatever reason.
"""

import fcntl
import os
import re
import shutil
import stat
import tempfile
import time
from contextlib import contextmanager
from typing import Iterator, Optional

PREFIX = "dlperf-"
_NAME = re.compile("dlperf-([a-z0-9_]{8}|job-[0-9]+-[0-9]+)")  # as `tempfile` makes them, and batch jobs
_UNLOCKED = 3600.0
"""Seconds after which a directory without a lock, which its owner was about to lock, counts as left behind."""


@contextmanager
def scratch(existing: Optional[str] = None) -> Iterator[str]:
    """Provide a directory that belongs to this process, and remove it when the context is left.

    First remove the directories beside it that killed processes have left (`sweep`).

    Args:
        existing: An existing directory to provide, which is removed as well; None for a new one with mode 0700 in the
            system's folder for temporary files.

    Yields:
        The directory's path. It contains the file `lock`.

    Raises:
        OSError: The directory cannot be made or locked, for example because `existing` does not exist.
    """
    sweep(existing)
    path = existing or tempfile.mkdtemp(prefix=PREFIX)
    try:
        lock = _lock(os.path.join(path, "lock"))
        try:
            yield path
        finally:
            os.close(lock)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _lock(path: str) -> int:
    """Create the file `lock` under another name and rename it: it never exists without being held."""
    descriptor = os.open(path + ".new", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.rename(path + ".new", path)
    return descriptor


def sweep(sparing: Optional[str] = None) -> None:
    """Remove the scratch directories that killed processes of this user have left in a folder.

    What cannot be read or removed is left there, without an error.

    Args:
        sparing: A directory to keep; the folder is its parent. With None, the folder is the system's folder for
            temporary files.
    """
    folder = os.path.dirname(sparing) if sparing else tempfile.gettempdir()
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        if _NAME.fullmatch(name) and path != sparing and _left_behind(path):
            shutil.rmtree(path, ignore_errors=True)


def _left_behind(path: str) -> bool:
    try:
        status = os.lstat(path)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return False
        try:
            descriptor = os.open(os.path.join(path, "lock"), os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:
            return _is_scratch(path) and time.time() - status.st_mtime > _UNLOCKED
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(descriptor)
    except OSError:
        return False  # locked by its owner, or removed meanwhile
    return True


def _is_scratch(path: str) -> bool:
    """Return True if a directory without a lock contains only files that an agent creates when it starts."""
    return set(os.listdir(path)) <= {"bundle", "bundle.pyz", "lock.new"}
