"""The interface of importers: each reads the logs of one program as a throughput and facts about the case."""

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
"""Maximum length of a line in bytes. A file with a longer line is refused."""
MAX_LINES = 1_000_000
"""Maximum number of lines. A file with more lines is refused."""


@frozen
class Reading:
    """Content of one log: a throughput, and facts about the case."""

    program: str
    """Program that wrote the log, as precisely as the log states it."""
    facts: Mapping[str, Any]
    """Name of a field of a run spec or of a published figure → value."""
    throughput: float
    """Samples of all devices per second."""
    estimator: str
    """Short name such as `loop-elapsed`, `elapsed-between-lines`, `summed-step-times` or `mean-of-rates`."""
    estimator_description: str
    """Description of the estimator in a sentence."""


class Log:
    """The lines of a log file. They can be read once, in order; the file is opened with the first line.

    Iteration yields pairs: the number of a line, counted from 1, and its text without the line end.

    Args:
        path: The file. It need not exist until the first line is read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.line_count = 0
        """Lines read so far."""
        self.modified = 0.0
        """Time of the file's last change, in seconds since 1970; known once the first line was read."""
        self._hash = hashlib.sha256()
        self._lines = self._read()

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Return an iterator over the lines not yet read, as (line number, text) pairs. Line numbers count from 1.

        The text has no line end. Bytes that are not UTF-8 are replaced.

        Raises:
            DocumentError: While iterating: the file cannot be read, is not a regular file, has a line that is longer
                than `MAX_LINE_BYTES`, or more than `MAX_LINES` lines.
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
                            self.line_count, f"is longer than {MAX_LINE_BYTES} bytes: this is not a log"
                        )
                    if self.line_count > MAX_LINES:
                        raise self.error_at(self.line_count, f"a log may have {MAX_LINES:,} lines")
                    yield self.line_count, line.decode("utf-8", "replace").rstrip("\r\n")
        except (OSError, ValueError) as error:
            if isinstance(error, DocumentError):
                raise
            reason = error.strerror if isinstance(error, OSError) else error
            raise DocumentError(f"{self.path} cannot be read: {reason}.") from None

    def sha256(self) -> str:
        """Read the remaining lines and return the SHA-256 checksum of the whole file, in hexadecimal.

        Raises:
            DocumentError: The rest of the file cannot be read, is not a regular file, has a line of more than
                `MAX_LINE_BYTES` (1 MiB), or more than `MAX_LINES` (1,000,000) lines.
        """
        for _ in self._lines:
            pass
        return self._hash.hexdigest()

    def error_at(self, line: int, problem: str) -> DocumentError:
        """Return an error that names the log file and a line; the caller raises it.

        The message has the form `run.log, line 12: PROBLEM.`, with the path of the log.

        Args:
            line: Line number, counted from 1.
            problem: The problem, a clause without a full stop.
        """
        return DocumentError(f"{self.path}, line {line}: {problem}.")

    def error_missing(self, missing: str) -> DocumentError:
        """Return an error about missing content; the caller raises it.

        The message has the form `run.log ends after line 12 without MISSING.`, with the path of the log and the
        number of the last line that was read.

        Args:
            missing: What the log lacks, a noun phrase such as `a throughput`.
        """
        return DocumentError(f"{self.path} ends after line {self.line_count} without {missing}.")


class Importer(ABC):
    """Reader of the logs of one program. Registered in the group `dlperf_sdk.importers`."""

    name: ClassVar[str]
    """The name used for selection; the entry point carries the same."""
    version: ClassVar[str]
    """Version of the reading rules, increased when a log is read differently. Every imported result states it."""
    unit: ClassVar[str] = "samples/s"
    """Unit of the throughput of models that are not installed; an installed one has its own."""
    has_window: ClassVar[bool] = False
    """True if the importer measures over a window of steps, which the facts `warmup` and `steps` choose."""

    @abstractmethod
    def read(self, log: Log, stated: Mapping[str, Any]) -> Reading:
        """Read one log of one training run.

        Args:
            log: The log; no line has been read yet.
            stated: Facts that the user states, under the names of `Reading.facts`; if the class attribute `has_window`
                is True, also the numbers of steps `warmup` and `steps`. They take precedence over facts in the log.

        Returns:
            The content of the log. Its `facts` are those in the log, and the caller adds the facts in `stated`.

        Raises:
            DocumentError: The log is malformed, incomplete or of several runs; the message names the line.
            UsageError: Neither the log nor `stated` has a fact that is needed to compute the throughput.
        """
