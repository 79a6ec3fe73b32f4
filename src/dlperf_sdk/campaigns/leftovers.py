"""What an earlier controller of a campaign left running: its agents end by themselves, and are waited for."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path

from dlperf_sdk.errors import StoreError

PATIENCE = 30.0
"""Seconds that agents are given to notice that their controller has gone; they need about three."""
WORDS = ("parity-", "largest-")
"""What the names of the processes begin with that a run has beside its attempts."""


def wait(ids: Iterable[str], patience: float = PATIENCE) -> bool:
    """Return when no process on this machine carries the name of one of these runs; whether there was one.

    Two attempts of one campaign must not run beside each other: both would be wrong.

    Raises:
        StoreError: some are still there after that time.
    """
    names, end, waited = tuple(ids), time.monotonic() + patience, False
    while True:
        alive = processes_of(names)
        if not alive:
            return waited
        if time.monotonic() > end:
            said = ", ".join(map(str, alive[:8]))
            raise StoreError(
                f"Processes of an earlier controller of this campaign, or of a copy of it, are still running: {said}. "
                "Wait for them, or end them; then resume."
            )
        waited = True
        time.sleep(0.1)


def processes_of(names: tuple[str, ...]) -> list[int]:
    """The pids of living processes that are agents of one of these runs, by the names in their commands.

    What a run does beside its attempts (its parity, its probes for the largest batch) has a word before its name.
    """
    marks = {f"{word}{name}{suffix}" for name in names for word in ("", *WORDS) for suffix in ("", ".pyz")}
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            state = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            continue
        if state != "Z" and any(word.rpartition("/")[2] in marks for word in words):
            found.append(int(entry.name))
    return found
