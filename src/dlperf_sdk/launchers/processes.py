"""Run a launcher's commands: they carry the bundle to the nodes and agent 0's stream back."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from dlperf_sdk.launchers.stream_events import HEARTBEAT, LineBuffer, ended_event
from dlperf_sdk.worker.agent import tether
from dlperf_sdk.worker.agent.diagnostics import diagnostics_event, read_tail

STOP_TIMEOUT = 10.0
"""Seconds for the agents to end after their tether; three of these are for their workers."""
_SETTLE = 5.0
"""Seconds after the failure of a node's command in which agent 0 may report the cause."""


@contextmanager
def run_commands(commands: Sequence[Sequence[str]], bundle: Path) -> Iterator[Iterator[bytes]]:
    """Run commands that start agents; the context's value is an iterator over their lines.

    Each command gets the bundle and then signs of life on its standard input. The iterator yields the lines of all
    commands. It ends with the first command, whose output is agent 0's stream; the last line is then an event
    `diagnostics` with the end of what all wrote to standard error. If another command fails and agent 0 does not
    report it within seconds, the last line is an event `ended` with the failure.

    Leaving the context closes the standard inputs, which ends the agents, and kills a command that has not ended
    after `STOP_TIMEOUT` seconds. What it has started elsewhere ends itself for lack of signs of life.

    Args:
        commands: The commands, each as its words.
        bundle: The bundle's file.

    Raises:
        OSError: A command cannot be started, or the bundle cannot be read.
    """
    processes: list[subprocess.Popen[bytes]] = []
    stopped = threading.Event()
    with tempfile.TemporaryFile() as diagnostics:
        try:
            for command in commands:
                process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=diagnostics,
                    start_new_session=True,  # the controller handles Ctrl-C
                )
                processes.append(process)
                feeding = (process.stdin, bundle.open("rb"), stopped)  # here: an error of it is the launch's
                threading.Thread(target=tether.feed, args=feeding, daemon=True).start()
            yield _read_lines(processes, diagnostics)
        finally:
            stopped.set()
            _stop(processes)


def _stop(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    deadline = time.monotonic() + STOP_TIMEOUT
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _read_lines(processes: Sequence[subprocess.Popen[bytes]], diagnostics: IO[bytes]) -> Iterator[bytes]:
    """Yield all lines that the processes print, until the first process, which carries agent 0's stream, ends.

    If another process fails and agent 0 does not report it, the last line does.
    """
    buffers = [LineBuffer() for _ in processes]
    failed: tuple[float, int] | None = None
    with selectors.DefaultSelector() as selector:
        for index, process in enumerate(processes):
            assert process.stdout is not None
            selector.register(process.stdout, selectors.EVENT_READ, index)
        while True:
            is_ending = failed is not None and buffers[0].is_empty()
            timeout = max(0.0, failed[0] - time.monotonic()) if failed is not None and is_ending else None
            for key, _ in selector.select(timeout):
                index, data = key.data, os.read(key.fd, 1 << 16)
                # A long line is a sign of life before it is complete.
                yield from buffers[index].add(data) or ([HEARTBEAT] if data else [])
                if not data:
                    selector.unregister(key.fileobj)
                    if index == 0:
                        yield diagnostics_event(diagnostics)
                        return
                    if processes[index].wait() and failed is None:
                        failed = time.monotonic() + _SETTLE, index
            # A line on its way may be a finished repeat; if it stops on its way, the stream is silent.
            if failed is not None and time.monotonic() >= failed[0] and buffers[0].is_empty():
                node = failed[1]
                message = (
                    f"The command of node {node} ended with exit code {processes[node].returncode} before its agent "
                    "did. Check that the host is up and can be reached from here, and the Python that runs the agents "
                    f"there (--set agent_python=). {read_tail(diagnostics)}"
                )
                yield ended_event("lost-node", message.strip(), node)
                return
