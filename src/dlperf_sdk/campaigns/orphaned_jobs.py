"""What an earlier controller of a campaign left running.

Its agents end by themselves, and are waited for. What it had submitted to a queue does not: the launcher is asked to
cancel it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from dlperf_sdk.campaigns.campaign import CampaignCase
from dlperf_sdk.errors import StoreError, Unavailable
from dlperf_sdk.interfaces.topology import Topology
from dlperf_sdk.registry.options import options_of
from dlperf_sdk.registry.plugins import Registry

PATIENCE = 30.0
"""Seconds that agents are given to notice that their controller has gone; they need about three."""
QUEUE_PATIENCE = 120.0
"""Seconds for a launcher to answer, and to end the jobs: a scheduler kills what does not listen after half a minute or
so, and clears up behind it."""
_AGAIN = 1.0
"""Seconds between two times that it is asked."""
WORDS = ("parity-", "largest-")
"""What the names of the processes begin with that a run has beside its attempts."""


def cancel_orphaned_jobs(
    pending: Iterable[CampaignCase],
    registry: Registry,
    tell: Callable[[list[str]], None],
    timeout: float = QUEUE_PATIENCE,
) -> None:
    """Have the launchers end what they still hold of these cases, and return when that has gone.

    `tell` is given what is being ended, as soon as it is known, each once.

    Raises:
        StoreError: something is still there after that time, or a launcher does not answer.
        UnknownName, PluginError, SpecError: a launcher, or an option of it, is no longer what it was.
    """
    end, named = time.monotonic() + timeout, set[str]()
    for launcher, options, ids in _launchers(pending, registry):
        while left := _left(launcher, options, ids, end):
            new = [f"{name} ({state})" for name, state in left.items() if name not in named]
            if new:
                named.update(left)
                tell(new)
            if time.monotonic() > end:
                said = ", ".join(f"{name} ({state})" for name, state in left.items())
                raise StoreError(
                    "What an earlier controller of this campaign left in the queue was cancelled, and does not go: "
                    f"{said}. Two attempts must not run beside each other. End it by hand, or wait until it has gone, "
                    "which on a node that does not answer takes until the node is given up; then resume."
                )
            time.sleep(_AGAIN)


def _launchers(pending: Iterable[CampaignCase], registry: Registry) -> list[tuple[Topology, Any, set[str]]]:
    """Each launcher with each of its options that occur, and the ids of all jobs that the cases may have had there."""
    launchers: dict[str, Topology] = {}
    found: dict[tuple[str, str], tuple[Topology, Any, set[str]]] = {}
    for each in pending:
        name = each.spec.topology.launcher
        if name not in launchers:
            launchers[name] = registry.topology(name)
        options = options_of(launchers[name], each.spec)
        _, _, ids = found.setdefault((name, repr(options)), (launchers[name], options, set()))
        ids.update(f"{word}{each.id}" for word in ("", *WORDS))
    return list(found.values())


def _left(launcher: Topology, options: Any, ids: set[str], end: float) -> dict[str, str]:
    """What is still there, by its launcher, which is asked until it answers, or until `end` on the monotonic clock."""
    while True:
        try:
            return dict(launcher.end_left(ids, options))
        except Unavailable as error:
            if time.monotonic() > end:
                raise StoreError(
                    f"An earlier controller of this campaign may have left something in the queue of {launcher.name}, "
                    f"which does not answer: {error} Resume when it does; two attempts must not run beside each other."
                ) from error
        time.sleep(_AGAIN)


def wait_for_processes(ids: Iterable[str], timeout: float = PATIENCE) -> bool:
    """Return when no process on this machine carries the name of one of these runs; whether there was one.

    Two attempts of one campaign must not run beside each other: both would be wrong.

    Raises:
        StoreError: some are still there after that time.
    """
    names, end, waited = tuple(ids), time.monotonic() + timeout, False
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
