"""The journal of a campaign: one entry per line, written to the disk before anything else happens.

Lines are only appended, and each is synchronized. A controller that was killed leaves at worst an incomplete last
line, which the next append removes. Entries about results are later checked against the results themselves.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import stat
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dlperf_sdk.campaigns.journal_entry import find_invalid_field
from dlperf_sdk.documents.reading import LARGEST_RESULT, check_memory, read_file
from dlperf_sdk.errors import DocumentError, StoreError
from dlperf_sdk.results.files import explain_os_errors

MOST_DAMAGES = 20
"""Maximum number of damaged lines of a journal that are described one by one."""
MOST_LINES = 1_000_000
"""Maximum number of lines of a journal."""
MOMENT = 1.0
"""Seconds during which a lock is tried before it is regarded as held. `is_locked` takes it for a moment, too."""


class Journal:
    """The journal of a campaign: a file with one entry per line, each a JSON object.

    Args:
        path: The file; it need not exist.
        cases: Ids of the campaign's cases: an entry about another case counts as damaged. None if they are unknown.
    """

    def __init__(self, path: Path, cases: Collection[str] | None = None) -> None:
        self.path = path
        self._cases = None if cases is None else {*cases, None}

    def read(self) -> list[dict[str, Any]]:
        """Return the valid entries of all complete lines, in order; empty without a file.

        Raises:
            StoreError: The file cannot be read, has more than `MOST_LINES` lines, or would need too much memory.
        """
        return self.read_checked()[0]

    def read_checked(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the valid entries of all complete lines, and a sentence for each complete line that is damaged.

        Both lists are empty without a file. After `MOST_DAMAGES` (20) sentences, one more states the number of further
        such lines.

        Raises:
            StoreError: The file cannot be read, has more than `MOST_LINES` lines, or would need too much memory.
        """
        if not self.path.exists():
            return [], []
        try:
            data = read_file(self.path, LARGEST_RESULT)
            check_memory(data, str(self.path))
        except DocumentError as error:
            raise StoreError(str(error)) from error
        if data.count(b"\n") > MOST_LINES:
            raise StoreError(
                f"{self.path} has more than {MOST_LINES:,} lines; no journal has. Remove it: `dlperf campaign resume` "
                "takes what it said from the attempts."
            )
        entries: list[dict[str, Any]] = []
        damages: list[str] = []
        skipped = 0
        for number, line in enumerate(data[: data.rfind(b"\n") + 1].split(b"\n")[:-1], 1):
            try:
                entry = json.loads(line)
                field = find_invalid_field(entry)
                if field is None and self._cases is not None and entry.get("case") not in self._cases:
                    field = "case"
            except (ValueError, RecursionError):
                field = ""
            if field is None:
                entries.append(entry)
            elif line.strip() and len(damages) == MOST_DAMAGES:
                skipped += 1
            elif line.strip():
                fault = "is missing or malformed, or names no case of the campaign"
                fault = fault if field == "case" else "is missing or malformed"
                reason = f"its field {field!r} {fault}" if field else "it is not JSON"
                damages.append(f"{self.path}:{number}: The line is skipped: {reason}.")
        if skipped:
            damages.append(f"{self.path}: {skipped:,} further lines are skipped.")
        return entries, damages

    def append(self, event: str, **details: Any) -> dict[str, Any]:
        """Append an entry, write it to the disk, and return it.

        An incomplete last line is removed first. If writing fails, the new entry is removed as well.

        Args:
            event: Kind of the entry, such as `attempt-ended`.
            details: Further fields of the entry, as JSON values. `event` and `time` are added.

        Raises:
            StoreError: The entry cannot be written.
            ValueError: A number in `details` is not finite.
        """
        entry = {"event": event, "time": datetime.now(UTC).isoformat(timespec="milliseconds"), **details}
        line = json.dumps(entry, allow_nan=False).encode() + b"\n"
        with explain_os_errors(self.path):
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self.path, flags, 0o600)
            try:
                length = _complete_length(descriptor)
                os.ftruncate(descriptor, length)
                try:
                    while line:
                        line = line[os.write(descriptor, line) :]
                    os.fsync(descriptor)
                except OSError:
                    os.ftruncate(descriptor, length)
                    raise
            finally:
                os.close(descriptor)
        return entry


def _complete_length(descriptor: int) -> int:
    """Return the length of the file up to the end of its last complete line."""
    size = os.fstat(descriptor).st_size
    end = size
    while end > 0:
        start = max(0, end - 4096)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Return a context manager in which this process holds the exclusive lock of the lock file `path`.

    The file is created if it is missing. The operating system releases the lock when the process ends, however it ends.
    The file names the process that took the lock last, and its host.

    Raises:
        StoreError: Another process still holds the lock after `MOMENT` (1 s), or the file cannot be opened.
    """
    with explain_os_errors(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise StoreError(f"{path} is not a file, but a pipe or a device. Remove it.")
        if not _try_lock(descriptor):
            raise StoreError(
                f"{path.parent} is being carried out by another controller ({read_holder(path) or 'unknown'}). "
                f"Wait for it, or look at it with `dlperf campaign status {path.parent}`."
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
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


def is_locked(path: Path) -> bool:
    """Return True if a process holds the lock of the lock file `path` now, or False if the file cannot be read."""
    try:
        # Opening a named pipe would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def read_holder(path: Path) -> str:
    """Return the process and the host that last locked the lock file `path`, as it names them: `process 123 on n1`.

    Return an empty text if the file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8", errors="replace")[:200].strip()
    except OSError:
        return ""


def find_last(entries: list[dict[str, Any]], event: str) -> Mapping[str, Any] | None:
    """Return the last of a journal's entries that has the kind `event`; None if there is none."""
    return next((entry for entry in reversed(entries) if entry["event"] == event), None)
