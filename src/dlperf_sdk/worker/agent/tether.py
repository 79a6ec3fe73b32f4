"""The tether: an agent's standard input, on which its controller gives a sign of life every few seconds."""

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
    """Write the bundle and then signs of life, until `stopped` is set or the reader has gone; then close both."""
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
    """Block until standard input ends or falls silent, then terminate this process."""
    while select.select([0], [], [], TIMEOUT)[0] and os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
