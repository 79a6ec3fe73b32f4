"""The standard streams of a program that may start without them, or whose reader may go away."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import IO


def open_missing_streams() -> None:
    """Open `/dev/null` for standard streams that are closed.

    Otherwise a file that is opened later could become standard output by accident.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            descriptor = os.open(os.devnull, os.O_RDWR)
            if descriptor != number:
                os.dup2(descriptor, number)
                os.close(descriptor)
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - for good


def replace_unprintable() -> None:
    """Set standard output and error to write `?` for a character that their encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def flush() -> None:
    """Flush standard output and standard error.

    The further output of a stream that cannot be written goes to `/dev/null`, so that Python's own flush does not
    fail.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            mute(stream)


def mute(stream: IO[str]) -> None:
    """Send the further output of a stream to `/dev/null`, so that the flush at Python's end does not fail again."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
