"""A log, line by line, and what was read from it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from dlperf_sdk.errors import DocumentError
from dlperf_sdk.results.result import Source

LONGEST = 1024 * 1024
"""Bytes of a line. What is longer is no log."""


@frozen
class Reading:
    """What one log says: a throughput, and of which case."""

    source: Source
    program: str
    """What wrote it, as far as it tells."""
    facts: Mapping[str, Any]
    """What it says of the case, under the names of a run spec's fields and of published figures'."""
    throughput: float
    """Samples of all devices per second."""
    estimator: str
    """Its name: `loop-elapsed`, `elapsed-between-lines`, `summed-step-times` or `mean-of-rates`."""
    how: str
    """The estimator in a sentence."""
    changed: float
    """When the file was last changed, in seconds since 1970."""


class Log:
    """A log's lines, each with its number, counted from 1. The checksum is complete when the last was taken."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = 0
        self.changed = 0.0
        self._hash = hashlib.sha256()

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """The lines as text; bytes that are not UTF-8 are replaced.

        Raises:
            DocumentError: the file cannot be read, is none, or a line is longer than `LONGEST`.
        """
        try:
            # Without O_NONBLOCK, to open a named pipe would wait for its writer.
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode):
                    raise DocumentError(f"{self.path} is not a file, but a directory, a pipe or a device.")
                self.changed = found.st_mtime
                while line := file.readline(LONGEST + 1):
                    self._hash.update(line)
                    self.lines += 1
                    if len(line) > LONGEST:
                        raise self.wrong(self.lines, f"is longer than {LONGEST} bytes: this is no log")
                    yield self.lines, line.decode("utf-8", "replace").rstrip("\r\n")
        except (OSError, ValueError) as error:
            if isinstance(error, DocumentError):
                raise
            reason = error.strerror if isinstance(error, OSError) else error
            raise DocumentError(f"{self.path} cannot be read: {reason}.") from None

    @property
    def source(self) -> Source:
        """The file's name, checksum and length, when all lines were taken."""
        return Source(self.path.name, self._hash.hexdigest(), self.lines)

    def wrong(self, line: int, what: str) -> DocumentError:
        """An error that names file and line: `run.log, line 12: …`."""
        return DocumentError(f"{self.path}, line {line}: {what}.")

    def lacks(self, what: str) -> DocumentError:
        """An error about what did not come until the end."""
        return DocumentError(f"{self.path} ends after line {self.lines} without {what}.")


Importer = Callable[[Path, Mapping[str, Any]], Reading]
"""A log's path, and what was said by hand → what was read. Raises DocumentError, with the number of the line."""
