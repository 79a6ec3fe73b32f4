"""What reading an input must not do: execute something, write outside its folder, hang, or take much memory."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROCESSOR_SECONDS = 5.0
WALL_SECONDS = 60.0
"""Of a read that waits instead of computing. It is generous: the machine may be busy."""
MEMORY = 512 * 1024 * 1024
"""Bytes of memory of the whole process."""

_EXECUTING = (
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty"),
    *("pickle.find_class", "os.kill", "urllib.Request"),
)
_CHANGING = (
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.chmod",
    "os.truncate",
)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Violation(BaseException):
    """Something that reading an input must not do. No handler of errors catches it."""


class Confinement:
    """Watches this process, for good: audit hooks cannot be removed.

    Args:
        writable: The folders that may be written.
    """

    def __init__(self, writable: list[Path]) -> None:
        self._writable = tuple(os.path.realpath(folder) for folder in writable)
        self._is_active = False
        self.violations: list[str] = []
        sys.addaudithook(self._audit)
        for timer in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(timer, self._time_out)

    @contextmanager
    def active(self) -> Iterator[None]:
        """Watch what is done inside; raise Violation if it takes too long."""
        self.violations.clear()
        signal.setitimer(signal.ITIMER_PROF, PROCESSOR_SECONDS)
        signal.setitimer(signal.ITIMER_REAL, WALL_SECONDS)
        self._is_active = True
        try:
            yield
        finally:
            self._is_active = False
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)

    def memory_excess(self) -> str | None:
        """Return a sentence if the process has taken too much memory at any time."""
        taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return f"took {taken // 2**20} MiB of memory" if taken > MEMORY else None

    def _time_out(self, number: int, _: Any) -> None:
        limit = f"{PROCESSOR_SECONDS} s of a processor" if number == signal.SIGPROF else f"{WALL_SECONDS} s"
        raise Violation(f"took more than {limit}")

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._is_active:
            return
        if event in _EXECUTING or (event == "socket.connect" and arguments[1][0] != "127.0.0.1"):
            self._violate(f"{event}{arguments!r}")
        elif event in _CHANGING or (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING
        ):
            self._check_path(event, arguments[0])

    def _check_path(self, event: str, path: Any) -> None:
        if not isinstance(path, str | bytes | os.PathLike):
            return  # a descriptor
        real = os.path.realpath(os.fsdecode(path))
        if real != os.devnull and not real.startswith(self._writable):
            self._violate(f"{event} of {real}")

    def _violate(self, what: str) -> None:
        self.violations.append(what[:500])
        raise Violation(what[:500])
