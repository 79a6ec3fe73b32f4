"""One worker process of an agent: its start, its progress, its exit, its record and its log."""

import json
import math
import os
import re
import signal
import subprocess
import time
from typing import Any, Dict, List, Mapping, Optional

from dlperf_sdk.worker.agent.secret_values import longest_form, replace_values
from dlperf_sdk.worker.agent.window_check import WindowCheck
from dlperf_sdk.worker.exhaustion import describe_exhaustion
from dlperf_sdk.worker.failures import failure
from dlperf_sdk.worker.processes import SERVICE, Process
from dlperf_sdk.worker.progress import Progress
from dlperf_sdk.worker.writing import write_json

LARGEST_RECORD = 64 * 1024 * 1024
DEEPEST_RECORD = 32
"""Maximum number of objects and arrays inside each other, so that every reader of the record can follow."""
LONGEST_LOG = 256 * 1024
"""Bytes of a worker's log that are reported: its end."""
_PRINTING = 1.0
"""Seconds that a process has to print its stacks and to end."""
_STACKS = re.compile(r"^(?:Current t|T)hread 0x[0-9a-f]+ .*\(most recent call first\):$", re.MULTILINE)
"""First line of what `faulthandler` prints."""
_LONGEST_STACKS = 8000
_PROBE = 16384
"""Bytes that `WorkerProcess.check_disk` writes to find out whether the disk is full."""


class WorkerProcess:
    """A worker process of this node.

    Args:
        process: The process, as the plugin's function lists it.
        name: Its name in logs and messages.
        directory: The directory for its files, which must not exist: `start` creates it.
        deadlines: `Request.deadlines`: seconds by phase.
        secrets: Secret values by name, which `log` replaces.
    """

    def __init__(
        self,
        process: Process,
        name: str,
        directory: str,
        deadlines: Dict[str, float],
        secrets: Mapping[str, str],
    ) -> None:
        self.process, self.name, self.directory, self._deadlines = process, name, directory, deadlines
        self._secrets = secrets
        self.last_progress = ("start", 0)
        """The phase and the number of steps taken in it, as `read_progress` last read them."""
        self.changed = time.monotonic()
        """Time at which they last changed, in seconds of the monotonic clock."""
        self.detected_failure: Optional[Dict[str, Any]] = None
        """A failure that the agent detected: a deadline that has passed, or a service that failed too early; None
        without one."""
        self.ended = False
        """True once the agent has seen that the process ended; the agent sets it."""
        self._kill_at: Optional[float] = None
        """Time at which a late process is killed; None as long as it has not been asked to end."""
        self._record: Optional[Dict[str, Any]] = None
        self.why_no_record = "left no readable record"
        """The reason why `record` returned None: a phrase that continues a sentence about the worker."""
        self._window_check = WindowCheck()

    def start(self, command: List[str], environment: Dict[str, str], order: Dict[str, Any]) -> None:
        """Create the worker's directory, and start the process in a separate session.

        Args:
            command: The command, to which `worker` and the directory are added.
            environment: All variables of the process.
            order: The document that describes the process to the worker; written to `process.json`.

        Raises:
            OSError: A file cannot be written, or the command cannot be started.
        """
        work = os.path.join(self.directory, "work")
        os.makedirs(work, mode=0o700)
        self.progress = Progress(os.path.join(self.directory, "progress"))
        write_json(os.path.join(self.directory, "process.json"), order)
        self._log = os.path.join(self.directory, "log")
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self.popen = subprocess.Popen(
                command + ["worker", self.directory],
                cwd=work,
                env=environment,
                stdin=subprocess.PIPE,
                bufsize=0,  # closing the pipe must not retry a write that failed because the worker has died
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            os.close(log)
        assert self.popen.stdin is not None  # noqa: S101 - it is a pipe
        self._stdin = self.popen.stdin
        self.changed = time.monotonic()

    def release(self) -> None:
        """Allow the worker to begin its window. A worker that has ended already is not an error."""
        self._window_check.release(time.monotonic())
        try:
            self._stdin.write(b"g")
        except OSError:
            pass  # it has ended, which `exit` reports

    def read_progress(self) -> None:
        """Read the worker's phase and step, and note when they last changed.

        The times are also noted for the check of the window in the worker's record.
        """
        before = time.monotonic()
        progress = self.progress.read()
        after = time.monotonic()
        self._window_check.observe_phase(progress[0], before, after)
        if progress != self.last_progress:
            self.last_progress, self.changed = progress, after

    def check_deadline(self) -> Optional[Dict[str, Any]]:
        """Return a failure if the worker has taken no step in its current phase for longer than the phase's deadline.

        The phase is the one that `read_progress` last read.

        Returns:
            The failure, of kind `timeout`, as `failures.failure` returns it without a node; None for a worker in time,
            a service, or a phase without deadline.
        """
        phase = self.last_progress[0]
        key = {"measure": "step", "verify": "compile", "done": "teardown"}.get(phase, phase)
        limit = self._deadlines.get(key)
        idle_seconds = time.monotonic() - self.changed
        if self.process.role == SERVICE or limit is None or idle_seconds <= limit:
            return None
        return failure(
            "timeout",
            "%s got no further in phase '%s' for %g s, which is its deadline; it was ended. If it was only slow, "
            "allow more with the deadline '%s'; its log shows what it did last."
            % (self.name, phase, limit, key),
            phase,
        )

    def check_disk(self) -> Optional[Dict[str, Any]]:
        """Return a failure if the process failed without a record, and its directory cannot be written to.

        Such a process could write neither its failure nor its log. Call this only after the process has ended.

        Returns:
            The failure, of kind `unavailable`, as `failures.failure` returns it without a node; None if the process has
            another cause of failure, or none.
        """
        if (
            not (self.popen.returncode > 0 or self.popen.returncode == -signal.SIGBUS)
            or self.record() is not None
        ):
            return None
        try:
            with open(os.path.join(self.directory, "probe"), "wb", buffering=0) as file:
                file.write(bytes(_PROBE))
            os.unlink(file.name)
        except OSError as error:
            shortage = describe_exhaustion(error, self.name)
            if shortage is not None:
                message = "%s could not write its record: %s" % (self.name, shortage)
                return failure("unavailable", message, self.last_progress[0])
        return None

    def close(self) -> None:
        """Close the pipe to the process. A process that still runs concludes that the agent has ended."""
        self._stdin.close()

    def signal(self, number: int) -> None:
        """Send a signal, by its number, to the worker's process group, which includes processes that load its data.

        Do nothing if the group has ended, or this user may not signal it.
        """
        try:
            os.killpg(self.popen.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def end_late(self) -> None:
        """End a trainer that missed a deadline: with SIGTERM, at which it prints its stacks, and later with SIGKILL.

        Call this until the process has ended.
        """
        now = time.monotonic()
        if self._kill_at is None:
            self._kill_at = now + _PRINTING
            self.signal(signal.SIGTERM)
        elif now > self._kill_at:
            self.signal(signal.SIGKILL)

    def stacks(self) -> Optional[str]:
        """Return the stacks that the process printed at a SIGTERM, at most 8,000 characters; None without any."""
        log = self.log()
        printed = _STACKS.search(log)
        return log[printed.start() :].rstrip()[:_LONGEST_STACKS] if printed else None

    def exit(self) -> Dict[str, Any]:
        """Return how the process ended, in the form of `dlperf_sdk.results.records.Exit`.

        Call this only after the process has ended.

        Returns:
            `node`, `role`, `rank` and `pid`; `code`, the exit code, None if a signal ended the process; `signal`, that
            signal's name or None; and `phase`, the last phase that the worker reported.
        """
        code = self.popen.returncode
        return {
            "node": self.process.node,
            "role": self.process.role,
            "rank": self.process.rank,
            "pid": self.popen.pid,
            "code": None if code < 0 else code,
            "signal": _signal_name(-code) if code < 0 else None,
            "phase": self.last_progress[0],
        }

    def record(self) -> Optional[Dict[str, Any]]:
        """Return the worker's record; call this only after the process has ended.

        Returns:
            The record, which is not yet checked against its schema; None if it is missing, too large, malformed, or
            contradicts the window that the agent saw. If it is None, `why_no_record` has the reason.
        """
        if self._record is None:
            self._record = self._read_record()
        return self._record

    def _read_record(self) -> Optional[Dict[str, Any]]:
        path = os.path.join(self.directory, "record.json")
        try:
            size = os.path.getsize(path)
            if size > LARGEST_RECORD:
                self.why_no_record = "left a record of %d bytes, and %d are read" % (size, LARGEST_RECORD)
                return None
            with open(path, encoding="utf-8") as file:
                record = json.load(file, parse_float=_finite, parse_constant=_finite)
        except OSError:
            return None
        except (ValueError, RecursionError) as error:
            self.why_no_record = "left a record that cannot be read (%s)" % error
            return None
        if not isinstance(record, dict) or not _is_within(record, DEEPEST_RECORD):
            self.why_no_record = (
                "left a record that is not an object, or nested more than %d deep" % DEEPEST_RECORD
            )
            return None
        contradiction = self._window_check.find_contradiction(record.get("window"))
        if contradiction is not None:
            self.why_no_record = contradiction
            return None
        return record

    def log(self) -> str:
        """Return the end of the worker's log, about `LONGEST_LOG` (256 KiB), with `<NAME>` in place of secret values.

        Standard output and standard error are in it, in the order of writing. Bytes that are no UTF-8 are replaced. The
        text is empty if the log's file is missing.
        """
        # What is cut off may begin in a value, whose other part would not be recognized: that is cut off afterwards.
        margin = longest_form(self._secrets)
        try:
            with open(self._log, "rb") as file:
                start = max(0, os.fstat(file.fileno()).st_size - LONGEST_LOG - margin)
                file.seek(start)
                text: str = replace_values(file.read().decode("utf-8", "replace"), self._secrets.items())
        except FileNotFoundError:
            return ""
        return text[margin:] if start else text


def _finite(text: str) -> float:
    """Return a number if it is finite: Python's reader also takes `NaN`, and `1e999` for an infinity."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("%.40s is not a finite number" % text)
    return number


def _is_within(value: Any, depth: int) -> bool:
    """Return True if objects and arrays are nested at most `depth` levels deep."""
    if not isinstance(value, (dict, list)):
        return True
    return depth > 0 and all(
        _is_within(item, depth - 1) for item in (value.values() if isinstance(value, dict) else value)
    )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "SIG%d" % number  # a real-time signal: they have no names
