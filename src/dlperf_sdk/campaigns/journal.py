"""The journal: what a campaign has done, a line each, on the disk before anything else happens.

Lines are only ever appended, and each is synchronised. A controller that was killed leaves at worst half a last line,
which the next one cuts off. What the journal says of results is checked against the results themselves.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dlperf_sdk.errors import StoreError
from dlperf_sdk.results.files import explained

MOMENT = 1.0
"""Seconds for which a lock is asked for before it is taken for held: whoever looks whether it is held has it then."""


class Journal:
    """A file of JSON lines."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> list[dict[str, Any]]:
        """All whole lines. One that cannot be read is left out: the results on disk tell what it would have.

        Raises:
            StoreError: the file cannot be read.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error.strerror}.") from error
        return [
            entry for entry in map(_entry, data[: data.rfind(b"\n") + 1].splitlines()) if entry is not None
        ]

    def append(self, event: str, **about: Any) -> dict[str, Any]:
        """Write a line, and return it when it is on the disk.

        Raises:
            StoreError: it cannot be written.
        """
        entry = {"event": event, "time": datetime.now(UTC).isoformat(timespec="milliseconds"), **about}
        line = json.dumps(entry, allow_nan=False).encode() + b"\n"
        with explained(self.path):
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self.path, flags, 0o600)
            try:
                whole = _whole(descriptor)
                os.ftruncate(descriptor, whole)
                try:
                    while line:
                        line = line[os.write(descriptor, line) :]
                    os.fsync(descriptor)
                except OSError:
                    os.ftruncate(descriptor, whole)
                    raise
            finally:
                os.close(descriptor)
        return entry


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) and isinstance(entry.get("event"), str) else None


def _whole(descriptor: int) -> int:
    """The length of the file up to the end of its last whole line."""
    size = os.fstat(descriptor).st_size
    end = size
    while end > 0:
        start = max(0, end - 4096)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a file's lock. It ends with the process, however that ends.

    Raises:
        StoreError: another controller holds it, or it cannot be made.
    """
    with explained(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if not _locked(descriptor):
            raise StoreError(
                f"{path.parent} is being carried out by another controller ({holder(path) or 'unknown'}). Wait for it, "
                f"or look at it with `dlperf campaign status {path.parent}`."
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Try to take the exclusive lock for `MOMENT` seconds, and return True if it was acquired."""
    end = time.monotonic() + MOMENT
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(0.02)


def is_held(path: Path) -> bool:
    """Return True if a controller holds the lock now."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def holder(path: Path) -> str:
    """Return the process and host that hold the lock, as written in its file; empty if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")[:200].strip()
    except OSError:
        return ""


def last(entries: list[dict[str, Any]], event: str) -> Mapping[str, Any] | None:
    """The last entry of a kind."""
    return next((entry for entry in reversed(entries) if entry["event"] == event), None)
