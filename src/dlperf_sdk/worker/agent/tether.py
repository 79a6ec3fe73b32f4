"""The tether: an agent's standard input, on which the controller sends a heartbeat every few seconds."""

import os
import select
import signal
import threading
import time
from typing import IO, List, Optional, Sequence, Set

INTERVAL = 5.0
"""Seconds between two heartbeats."""
TIMEOUT = 25.0
"""Seconds without one after which the controller counts as lost."""
_POLL = 100
"""Milliseconds after which `stopped` is looked at while the bundle is on its way."""
_PART = 1 << 16
"""Bytes of the bundle that a pipe is offered at a time."""


def feed(pipes: Sequence[IO[bytes]], bundle: IO[bytes], stopped: threading.Event) -> None:
    """Write the bundle and then heartbeats to agents, until `stopped` is set or all agents are gone.

    Close the pipes and the bundle's file at the end. One call serves all nodes in one thread. A node that reads
    slowly does not delay the others. An agent that is gone is not an error.

    Args:
        pipes: The agents' standard inputs.
        bundle: The bundle's file, opened for reading.
        stopped: An event that the caller sets, in another thread, to end this call.
    """
    try:
        _feed([pipe.fileno() for pipe in pipes], bundle.fileno(), stopped)
    finally:
        for file in (*pipes, bundle):
            file.close()


def _feed(pipes: List[int], bundle: int, stopped: threading.Event) -> None:
    offsets = dict.fromkeys(pipes, 0)
    """How much of the bundle each pipe has taken that has not taken all of it."""
    is_supplied: Set[int] = set()
    poll = select.poll()
    for pipe in pipes:
        os.set_blocking(pipe, False)
        poll.register(pipe, select.POLLOUT)
    due = time.monotonic() + INTERVAL
    while (offsets or is_supplied) and not stopped.is_set():
        if not offsets:
            stopped.wait(max(0.0, due - time.monotonic()))
        for pipe, _ in poll.poll(_POLL) if offsets else ():
            part = os.pread(bundle, _PART, offsets[pipe])
            written = _write(pipe, part)
            if written is not None:
                offsets[pipe] += written
                if part:
                    continue
                is_supplied.add(pipe)
            del offsets[pipe]
            poll.unregister(pipe)
        if time.monotonic() >= due and not stopped.is_set():
            is_supplied = {pipe for pipe in is_supplied if _write(pipe, b"\n") is not None}
            due = time.monotonic() + INTERVAL


def _write(pipe: int, part: bytes) -> Optional[int]:
    """Write what a pipe takes now, and return its length; None if its reader is gone."""
    try:
        return os.write(pipe, part)
    except BlockingIOError:
        return 0
    except OSError:
        return None


def watch() -> None:
    """Block until standard input ends or is silent for `TIMEOUT` (25) seconds, then send SIGTERM to this process."""
    while select.select([0], [], [], TIMEOUT)[0] and os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
