"""The agent of a node, as a child of the process of the job that leads this node."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dlperf_sdk.launchers.processes import STOP_TIMEOUT, wait_or_kill
from dlperf_sdk.worker.agent import tether
from dlperf_sdk.worker.agent.diagnostics import read_tail


@contextmanager
def run_agent(
    command: Sequence[str],
    bundle: bytes,
    on_line: Callable[[str], None],
    on_end: Callable[[int, str], None],
) -> Iterator[None]:
    """Return a context manager that runs an agent as a child of this process; its value is None.

    On exit, it closes the agent's standard input, so that the agent ends, and kills the agent if it has not ended after
    `STOP_TIMEOUT` (10) seconds. If this process is killed, the agent's standard input closes, too.

    Args:
        command: The words of the agent's command.
        bundle: The content of the bundle. A thread writes it to the agent's standard input, and then heartbeats.
        on_line: Called in another thread with each line that the agent prints, without its line feed.
        on_end: Called when the agent ends, with its exit code and the end of its standard error, in the thread that
            calls `on_line`. If the command cannot be started, it is called at once in the caller's thread, with 127, as
            in a shell, and a phrase with the error.
    """
    stopped = threading.Event()
    # In memory: a full disk of the node is the agent's to report.
    content = os.fdopen(os.memfd_create("bundle"), "w+b")
    errors = os.fdopen(os.memfd_create("errors"), "w+b")
    content.write(bundle)
    content.flush()
    with errors:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # the leader handles signals
            )
        except OSError as error:
            content.close()
            on_end(127, f"{command[0]}: {error.strerror}")
            yield
            return

        def forward() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                on_line(line.decode("utf-8", "replace").rstrip("\n"))
            on_end(process.wait(), read_tail(errors))

        feeding = threading.Thread(target=tether.feed, args=([process.stdin], content, stopped), daemon=True)
        reading = threading.Thread(target=forward, daemon=True)
        feeding.start()
        reading.start()
        try:
            yield
        finally:
            stopped.set()
            feeding.join()
            wait_or_kill([process], STOP_TIMEOUT)
            reading.join()
            assert process.stdout is not None
            process.stdout.close()
