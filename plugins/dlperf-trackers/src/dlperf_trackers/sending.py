"""`send`: a result goes to a tracker in a separate process, within a time limit.

The library of a tracker may start threads and processes, write to standard output, wait for a server for minutes, or
call functions when the interpreter exits. None of this reaches the process that measures.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import IO

from dlperf_sdk import Result
from dlperf_sdk.errors import DlperfError
from dlperf_trackers.trackers import Destination, parse_destination

TIMEOUT = 120.0
"""Default of the time limit in seconds. Importing a library on a busy machine takes up to half a minute."""


class TrackerFailed(DlperfError):
    """A tracker that did not take a result."""


class TrackerTimedOut(TrackerFailed):
    """A tracker that did not take a result within the time limit."""


def send(
    result: Result, tracker: str | Destination, *, redact: bool = False, timeout: float = TIMEOUT
) -> None:
    """Send a result to a tracker in a separate process, and wait until it has taken the result.

        send(result, "mlflow")
        send(result, "prometheus:/var/lib/node_exporter")

    A result that is sent again replaces what the tracker has of it.

    Args:
        result: The result.
        tracker: Name of the tracker, such as `mlflow`, followed by `:DIR` if it writes to a directory; or a
            `Destination`.
        redact: True to leave out the names of hosts and users.
        timeout: Time limit in seconds. At its end, the process is killed.

    Raises:
        UsageError: The tracker is unknown, lacks the `:DIR` that it needs, has a `:DIR` that it does not take, or its
            library is not installed.
        TrackerFailed: The tracker did not take the result. The message has no credentials. After `timeout` seconds, the
            error is its subclass TrackerTimedOut.
        DocumentError: The result's records cannot be read; or the result holds a value that JSON cannot represent.
        OSError: The process cannot be started, or there is no room for temporary files.
    """
    destination = parse_destination(tracker) if isinstance(tracker, str) else tracker
    # -P: a file mlflow.py in the current directory is not imported.
    command = [sys.executable, "-P", "-m", "dlperf_trackers", str(destination), "-"]
    with tempfile.TemporaryFile("w+") as document, tempfile.TemporaryFile("w+", errors="replace") as errors:
        json.dump(result.to_dict(), document)
        document.seek(0)
        process = subprocess.Popen(
            [*command, "--redact"] if redact else command,
            stdin=document,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise TrackerTimedOut(
                f"{destination.tracker.name} did not answer within {timeout:g} s."
            ) from None
        finally:
            _kill_group(process)
        if code:
            raise TrackerFailed(
                _read_error(errors) or f"{destination.tracker.name} ended with exit code {code}."
            )


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children that remain, and wait for it. A file has their output, so nothing else waits."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read_error(errors: IO[str]) -> str:
    """Return the last line that the command wrote as an error; other lines are the library's and may have secrets."""
    errors.seek(0)
    return next((line[7:].strip() for line in reversed(errors.readlines()) if line.startswith("Error: ")), "")
