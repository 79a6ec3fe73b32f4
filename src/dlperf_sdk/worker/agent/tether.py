"""The tether: an agent's standard input, on which the controller sends a sign of life every few seconds."""

import os
import select
import shutil
import signal
import threading
from typing import IO

INTERVAL = 5.0
"""Seconds between two signs of life."""
TIMEOUT = 25.0
"""Seconds without one after which the controller counts as lost."""


def feed(pipe: IO[bytes], bundle: IO[bytes], stopped: threading.Event) -> None:
    """Write the bundle and then signs of life to an agent, until `stopped` is set or the agent has gone.

    The pipe and the bundle's file are then closed.

    Args:
        pipe: The agent's standard input.
        bundle: The bundle's file, opened for reading.
        stopped: Set this event to end the tether.
    """
    try:
        with pipe, bundle:
            shutil.copyfileobj(bundle, pipe)
            pipe.flush()
            while not stopped.wait(INTERVAL):
                pipe.write(b"\n")
                pipe.flush()
    except (OSError, ValueError):
        pass  # the reader has gone


def watch() -> None:
    """Block until standard input ends or is silent for `TIMEOUT` seconds, then send SIGTERM to this process."""
    while select.select([0], [], [], TIMEOUT)[0] and os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
