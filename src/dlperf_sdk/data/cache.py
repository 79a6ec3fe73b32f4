"""Store prepared data: readable by its user only, never half-written, and made by one process at a time."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dlperf_sdk import folders
from dlperf_sdk.errors import Unavailable

Progress = Callable[[str, int, int], None]
"""Called with a stage, the amount done, and the total amount."""


def ignore_progress(stage: str, done: int, total: int) -> None:
    """Ignore a report of progress: the default callback."""


def directory() -> Path:
    """Return the directory of prepared data, `data` in DLPERF_CACHE_DIR or the user's cache; create it if needed.

    Raises:
        Unavailable: It cannot be created, or the user has no cache directory.
    """
    root = folders.cache() / "data"
    try:
        # With `parents`, mkdir would create the parent readable by all users.
        root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        root.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"The cache directory {root} cannot be made: {error.strerror}. Prepared data is kept there; name "
            "a place that can be written to in DLPERF_CACHE_DIR."
        ) from error
    return root


def write(path: Path, content: bytes) -> None:
    """Write a file in one step, so that a reader sees all of it or nothing. Only its owner can read it.

    An existing file is replaced. Raises OSError if the file cannot be written, and leaves no part of it.
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


@contextmanager
def hold_lock(path: Path, on_wait: Callable[[], None]) -> Iterator[None]:
    """Hold the lock on a path while the context lasts, and wait for it as long as another process holds it.

    The lock is the file `.NAME.lock` beside the path, which is created if needed. The kernel releases it when its
    holder ends, for whatever reason.

    Args:
        path: The file or directory to lock.
        on_wait: Called once before waiting for another process.
    """
    lock = path.with_name(f".{path.name}.lock")
    number = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)
