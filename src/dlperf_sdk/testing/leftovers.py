"""What a run may have left behind: processes, and shared memory that no process has any more."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

MARK = "DLPERF_CONFORMANCE"
"""The environment variable that a run's processes are known by."""
SHARED = Path("/dev/shm")  # noqa: S108 - nothing is made there
PATIENCE = 5.0
"""Seconds that shared memory may take to be removed: others that are at work on this machine make some, too."""


def alive(mark: str) -> list[str]:
    """The command lines of all processes that carry a mark in their environment."""
    found = []
    for process in _processes():
        try:
            environment = (process / "environ").read_bytes()
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if f"{MARK}={mark}".encode() in environment and line:
            found.append(line)
    return found


def shared_memory() -> frozenset[Path]:
    """The files in shared memory that are this user's."""
    found = set()
    for path in SHARED.rglob("*"):
        try:
            about = path.lstat()
        except OSError:
            continue
        if about.st_uid == os.getuid() and not path.is_dir():
            found.add(path)
    return frozenset(found)


def nobodys(before: frozenset[Path]) -> list[str]:
    """What is in shared memory now, was not `before`, and that no process has open or mapped; after a while."""
    until = time.monotonic() + PATIENCE
    while True:
        new = {str(path) for path in shared_memory() - before}
        left = sorted(new - _held()) if new else []
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.1)


def _held() -> set[str]:
    """The files in shared memory that this user's processes have open or mapped."""
    found = set()
    for process in _processes():
        try:
            found |= {str(one.readlink()) for one in (process / "fd").iterdir()}
            found |= {line.split(maxsplit=5)[-1] for line in (process / "maps").read_text().splitlines()}
        except OSError:
            continue
    return found


def _processes() -> Iterator[Path]:
    """The directories of all other processes in /proc."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            yield entry
