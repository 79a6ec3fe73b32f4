"""Report a worker's progress through shared memory: one store per step, no system call, nothing to wait for."""

import mmap
import os
from typing import Tuple

PHASES = ("start", "compile", "warmup", "ready", "measure", "verify", "teardown", "done")
"""Phases of a worker, in order. `ready` waits for all other workers, so it has no deadline of its own. `verify`
repeats the steps of `compile`, and has its deadline."""

_SIZE = 16


class Progress:
    """Two 64-bit counters in a file that the worker and its agent map: the phase, and the step within it.

    Args:
        path: The file, which is created if it does not exist; only its owner can read it.

    Raises:
        OSError: The file cannot be created, or there is no room for it.
    """

    def __init__(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, _SIZE)
            self._map = mmap.mmap(descriptor, _SIZE)
        finally:
            os.close(descriptor)
        self.counters = memoryview(self._map).cast("q")
        """The index of the phase in `PHASES`, and the number of steps taken in it."""

    def enter(self, phase: str) -> None:
        """Begin a phase: set it, and set the number of steps in it to 0. Called in the worker.

        Args:
            phase: One of `PHASES`.

        Raises:
            ValueError: There is no such phase. The number of steps is 0 afterwards, and the phase is unchanged.
        """
        self.counters[1] = 0
        self.counters[0] = PHASES.index(phase)

    def read(self) -> Tuple[str, int]:
        """Return the phase, one of `PHASES`, and the number of steps taken in it; called in the agent and the worker.

        If the index of the phase in the file is negative, the first phase is returned; if it is too large, the last.
        """
        return PHASES[min(max(self.counters[0], 0), len(PHASES) - 1)], self.counters[1]

    def close(self) -> None:
        """Release the shared memory, and keep the file; the object cannot be used afterwards."""
        self.counters.release()
        self._map.close()
