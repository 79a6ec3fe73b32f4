"""An importer: reads one log of another program, and returns a throughput and the facts of its case."""

from __future__ import annotations

import hashlib
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from attrs import frozen

from dlperf_sdk.errors import DocumentError

MAX_LINE_BYTES = 1024 * 1024
"""A longer line is refused: the file is no log."""


@frozen
class Reading:
    """The content of one log: a throughput, and the facts of the case."""

    program: str
    """The program that wrote the log, as far as the log tells."""
    facts: Mapping[str, Any]
    """Named as the fields of a run spec and of a published figure are."""
    throughput: float
    """Samples of all devices per second."""
    estimator: str
    """A short name, such as `loop-elapsed`, `elapsed-between-lines`, `summed-step-times` or `mean-of-rates`."""
    estimator_description: str
    """The estimator in a sentence."""


class Log:
    """The lines of a log with their numbers, counted from 1. They can be read once, in order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.line_count = 0
        """Lines read so far."""
        self.modified = 0.0
        """Time of the file's last change, in seconds since 1970; known once the first line was read."""
        self._hash = hashlib.sha256()
        self._lines = self._read()

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Return the lines not yet read, as text; bytes that are not UTF-8 are replaced.

        Raises:
            DocumentError: the file cannot be read, is no regular file, or has a line above `MAX_LINE_BYTES`.
        """
        return self._lines

    def _read(self) -> Iterator[tuple[int, str]]:
        try:
            # Without O_NONBLOCK, opening a named pipe would wait for its writer.
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise DocumentError(f"{self.path} is not a file, but a directory, a pipe or a device.")
                self.modified = status.st_mtime
                while line := file.readline(MAX_LINE_BYTES + 1):
                    self._hash.update(line)
                    self.line_count += 1
                    if len(line) > MAX_LINE_BYTES:
                        raise self.error_at(
                            self.line_count, f"is longer than {MAX_LINE_BYTES} bytes: this is no log"
                        )
                    yield self.line_count, line.decode("utf-8", "replace").rstrip("\r\n")
        except (OSError, ValueError) as error:
            if isinstance(error, DocumentError):
                raise
            reason = error.strerror if isinstance(error, OSError) else error
            raise DocumentError(f"{self.path} cannot be read: {reason}.") from None

    def sha256(self) -> str:
        """Read the remaining lines and return the checksum of the whole file."""
        for _ in self._lines:
            pass
        return self._hash.hexdigest()

    def error_at(self, line: int, problem: str) -> DocumentError:
        """Return an error about a problem in a line: `run.log, line 12: …`."""
        return DocumentError(f"{self.path}, line {line}: {problem}.")

    def error_missing(self, missing: str) -> DocumentError:
        """Return an error about something that the log lacks: `run.log ends after line 12 without …`."""
        return DocumentError(f"{self.path} ends after line {self.line_count} without {missing}.")


class Importer(ABC):
    """Reads the logs of one program. Registered in the group `dlperf_sdk.importers`."""

    name: ClassVar[str]
    """The name used for selection; the entry point carries the same."""
    version: ClassVar[str]
    """Raised when a log is read differently than before; every imported result states it."""
    has_window: ClassVar[bool] = False
    """True if it measures over a window of steps, which `warmup` and `steps` choose."""

    @abstractmethod
    def read(self, log: Log, stated: Mapping[str, Any]) -> Reading:
        """Read one log of one training run.

        Args:
            log: The file, line by line.
            stated: Facts that the user states, under the names of `Reading.facts`; with `has_window` also
                `warmup` and `steps`. They take precedence over the log's.

        Raises:
            DocumentError: the log is malformed, incomplete or of several runs; the message names the line.
            UsageError: a fact that is needed here is neither in the log nor in `stated`.
        """
