"""Run a launcher's commands: they carry the bundle to the nodes and agent 0's stream back."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from dlperf_sdk.errors import Unavailable
from dlperf_sdk.launchers.stream_events import HEARTBEAT, LineBuffer, ended_event, start_failure
from dlperf_sdk.worker.agent import tether
from dlperf_sdk.worker.agent.descriptors import raise_descriptor_limit
from dlperf_sdk.worker.agent.diagnostics import diagnostics_event, read_tail
from dlperf_sdk.worker.exhaustion import describe_exhaustion

STOP_TIMEOUT = 10.0
"""Seconds for the agents to end after their standard input has closed; three of these are for their workers."""
_START_STOP_TIMEOUT = 2.0
"""The same before all agents have joined: there are no workers, and a command may hang, such as ssh."""
_SETTLE = 5.0
"""Seconds after the failure of a node's command in which agent 0 may report the cause."""
_POLL = 0.5
"""Seconds between two checks of the processes of the other nodes than the first."""
_READY = b'{"event": "agents-ready"'
"""How the line begins that agent 0 prints when all agents have joined."""
_PART = 1 << 16
"""Bytes that are read at a time."""
_SPARE_DESCRIPTORS = 16
"""Descriptors that the controller needs in addition to one per command: for the stream and for files that it writes."""


@contextmanager
def run_commands(commands: Sequence[Sequence[str]], bundle: Path) -> Iterator[Iterator[bytes]]:
    """Return a context manager that runs commands that start agents; its value yields the lines that they print.

    Each command gets the bundle and then a heartbeat every few seconds on its standard input. The value is an iterator
    that yields the lines of the first command, agent 0's stream, without their line feeds, and ends in one of these
    ways:

    - The first command ends. The last line is an event `diagnostics` with the end of the standard error of all
      commands.
    - The agent of another command prints that it cannot join its run. The last line is an event `ended` with its
      message. Nothing else that other commands print is used.
    - Another command fails, and agent 0 does not report that within five seconds. The last line is an event `ended`
      with the failure.

    On exit, the context manager closes the standard inputs, which ends the agents, and kills a command that has not
    ended after `STOP_TIMEOUT` (10) seconds. It waits only 2 seconds if there are several commands and not all agents
    have joined. The agents of a killed command end themselves, because they no longer get heartbeats.

    Each command needs one file descriptor, for its standard input. The commands share the file of the bundle, the
    thread that writes the bundle, the pipe for the output of all but the first, and the file of standard error.

    Args:
        commands: The commands, each as its words.
        bundle: The bundle's file.

    Raises:
        Unavailable: The program of a command is missing or cannot be executed.
        OSError: A resource such as descriptors or processes ran out, or the bundle cannot be read.
    """
    _check_descriptors(len(commands))
    processes: list[subprocess.Popen[bytes]] = []
    stopped, are_ready = threading.Event(), threading.Event()
    with contextlib.ExitStack() as files:
        diagnostics = files.enter_context(tempfile.TemporaryFile())
        content = files.enter_context(bundle.open("rb"))
        output, shared_output = (files.enter_context(file) for file in _open_pipe())
        pipes: list[IO[bytes]] = []
        feeding = threading.Thread(target=tether.feed, args=(pipes, content, stopped), daemon=True)
        try:
            for command in commands:
                process = start_command(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=shared_output if processes else subprocess.PIPE,
                    stderr=diagnostics,
                )
                processes.append(process)
                assert process.stdin is not None
                pipes.append(process.stdin)
            shared_output.close()
            feeding.start()
            yield _read_lines(processes, output, diagnostics, are_ready)
        finally:
            stopped.set()
            if feeding.ident is not None:
                feeding.join()
            for pipe in pipes:
                pipe.close()
            # A single command starts all nodes, and may need time to end them.
            has_workers = are_ready.is_set() or len(processes) == 1
            _stop(processes, STOP_TIMEOUT if has_workers else _START_STOP_TIMEOUT)


def start_command(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a command of a launcher in its own session, since the controller handles Ctrl-C, and return its process.

    Args:
        command: The command's words.
        options: Further arguments of `subprocess.Popen`, such as `stdin`.

    Raises:
        Unavailable: The program is missing or cannot be executed.
        OSError: A resource such as descriptors or processes ran out.
    """
    try:
        return subprocess.Popen(command, start_new_session=True, **options)
    except OSError as error:
        if describe_exhaustion(error, "The controller") is not None:
            raise
        raise Unavailable(
            f"{command[0]} cannot be executed: {error.strerror}. Check that it is installed on this machine and that "
            "you may execute it."
        ) from error


def _check_descriptors(commands: int) -> None:
    """Raise the soft limit of descriptors as far as the commands need it.

    Raises:
        OSError: The hard limit is too low.
    """
    needed = len([*Path("/proc/self/fd").iterdir()]) + commands + _SPARE_DESCRIPTORS
    if not raise_descriptor_limit(needed):
        raise OSError(errno.EMFILE, f"{commands} commands that start agents need {needed} descriptors")


def _open_pipe() -> tuple[IO[bytes], IO[bytes]]:
    """Return the two ends of a pipe."""
    reading, writing = os.pipe()
    return os.fdopen(reading, "rb"), os.fdopen(writing, "wb")


def _stop(processes: Sequence[subprocess.Popen[bytes]], timeout: float) -> None:
    wait_or_kill(processes, timeout)
    for process in processes:
        if process.stdout is not None:
            process.stdout.close()


def wait_or_kill(processes: Iterable[subprocess.Popen[bytes]], timeout: float) -> None:
    """Wait until processes that have been told to end have ended, and kill those that have not after `timeout` seconds.

    The time counts from the call, for all processes together.
    """
    deadline = time.monotonic() + timeout
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _read_lines(
    processes: Sequence[subprocess.Popen[bytes]],
    output: IO[bytes],
    diagnostics: IO[bytes],
    are_ready: threading.Event,
) -> Iterator[bytes]:
    """Yield the lines that the first process prints, which carries agent 0's stream, until it ends.

    If another process reports a failure, or fails and agent 0 does not report it, the last line does.

    Args:
        processes: The processes.
        output: What the others than the first print, such as the greetings of their shells.
        diagnostics: What all of them wrote to standard error.
        are_ready: This event is set when all agents have joined.
    """
    first, *others = processes
    assert first.stdout is not None
    buffer, unfinished = LineBuffer(), b""
    failed: tuple[float, int] | None = None
    checked = time.monotonic()
    with selectors.DefaultSelector() as selector:
        selector.register(first.stdout, selectors.EVENT_READ)
        selector.register(output, selectors.EVENT_READ)
        while not first.stdout.closed:
            for key, _ in selector.select(_POLL):
                data = os.read(key.fd, _PART)
                if not data:
                    selector.unregister(key.fileobj)
                if key.fileobj is output:
                    *lines, unfinished = (unfinished[-_PART:] + data).split(b"\n")
                    for event in filter(
                        None, (start_failure(line, range(1, len(processes))) for line in lines)
                    ):
                        yield event
                        return
                    continue
                # A long line counts as a heartbeat before it is complete.
                added = buffer.add(data)
                if not are_ready.is_set() and any(line.startswith(_READY) for line in added):
                    are_ready.set()
                yield from added or ([HEARTBEAT] if buffer.may_be_event() else [])
                if not data:
                    yield diagnostics_event(diagnostics)
                    return
            now = time.monotonic()
            if failed is None and now >= checked + _POLL:
                checked = now
                node = next((node for node, process in enumerate(others, 1) if process.poll()), None)
                failed = None if node is None else (now + _SETTLE, node)
            # An incomplete line may be a finished repeat. If it stays incomplete, the stream's silence ends the run.
            if failed is not None and now >= failed[0] and not buffer.may_be_event():
                node = failed[1]
                message = (
                    f"The command of node {node} ended with exit code {processes[node].returncode} before its agent "
                    "did. Check that the host is up and can be reached from here, and the Python that runs the agents "
                    f"there (--set agent_python=). {read_tail(diagnostics)}"
                )
                yield ended_event("lost-node", message.strip(), node)
                return
