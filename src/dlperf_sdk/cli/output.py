"""Writing of a command's output to standard output, or to the file that `-o` names."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dlperf_sdk.cli.screen import Common, emit, say, write
from dlperf_sdk.reports.numbers import format_count

if TYPE_CHECKING:
    from dlperf_sdk.execution.uploading import Uploader


def write_text(text: str) -> None:
    """Write text to standard output. On a terminal, control characters are replaced.

    Raises:
        UsageError: Standard output cannot be written.
    """
    from dlperf_sdk.reports.terminal import escape_lines

    write(escape_lines(text) if sys.stdout.isatty() else text)


def write_file(file: Path, data: bytes, common: Common) -> None:
    """Write bytes to a file, and report its name and size: on standard output with `--json`, else on standard error.

    The file's permissions follow the umask.

    Args:
        file: The file; its directory must exist.
        data: The content.
        common: The options `--json` and `--debug`.

    Raises:
        StoreError: The file cannot be written.
        UsageError: Standard output cannot be written.
    """
    from dlperf_sdk.results.files import check_replaceable, directory_of, explain_os_errors, write_whole

    with explain_os_errors(file, "-o"):
        check_replaceable(file)
    with explain_os_errors(file, "-o"), directory_of(file.absolute().parent, ()) as directory:
        # The file is made to be shared, unlike a run's own files: the umask decides who may read it.
        write_whole(directory, file.name, data, mode=0o666)
    if common.json:
        emit({"file": str(file), "bytes": len(data)})
    else:
        say(f"{os.fspath(file)}: {len(data):,} bytes")


def say_unreadable(unreadable: Sequence[str]) -> None:
    """Report on standard error how many results of a store cannot be read, and which is the first; nothing if none.

    Args:
        unreadable: A text for each such result, which names it, as in `Answer.unreadable`.
    """
    if unreadable:
        first = f"; the first is {unreadable[0]}" if len(unreadable) > 1 else f": {unreadable[0]}"
        say(
            f"Left out: {format_count(len(unreadable), 'result')} that cannot be read{first}. In `dlperf query`, the "
            "table `unreadable` has the reasons.",
            "yellow",
        )


def say_uploaded(uploaders: Iterable[Uploader]) -> None:
    """Report on standard error how many results each uploader sent, and to which database.

    Nothing is reported for an uploader that sent none.
    """
    for uploader in uploaders:
        if uploader.sent:
            say(f"Uploaded to {uploader.database.location}: {format_count(len(uploader.sent), 'result')}")
