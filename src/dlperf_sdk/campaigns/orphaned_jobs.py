"""Agents and jobs that an earlier controller of a campaign left running.

Agents end by themselves, and the controller waits for that. Jobs in a queue do not: their launcher cancels them.
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

AGENT_TIMEOUT = 30.0
"""Maximum seconds until agents notice that their controller is gone. They need about three."""
QUEUE_TIMEOUT = 120.0
"""Maximum seconds until a launcher answers and the jobs have ended. A scheduler takes about half a minute to kill
a job that does not respond."""
_POLL = 1.0
"""Seconds between two calls of a launcher."""
PREFIXES = ("", "parity-", "largest-")
"""Prefixes of a case's id in the id of a job: none for its attempts, and a word for its other runs."""


def cancel_orphaned_jobs(
    pending: Iterable[CampaignCase],
    registry: Registry,
    on_cancel: Callable[[list[str]], None],
    timeout: float = QUEUE_TIMEOUT,
) -> None:
    """Cancel the jobs of the given cases in the queues of their launchers, and return when no job is left.

    Args:
        pending: The cases that are not concluded.
        registry: The plugins.
        on_cancel: Function that is called with a list of texts `LABEL (STATE)`, one per job that is being cancelled.
            Each job is reported once.
        timeout: Maximum seconds until all jobs have ended.

    Raises:
        StoreError: A job is left after the timeout, or a launcher does not answer.
        UnknownName: A launcher or one of its options no longer exists.
        PluginError: A launcher does not work.
        SpecError: An option of a launcher has an impossible value.
    """
    deadline, reported = time.monotonic() + timeout, set[str]()
    for launcher, options, ids in _group_by_launcher(pending, registry):
        while jobs := _cancel_jobs(launcher, options, ids, deadline):
            new = [f"{label} ({state})" for label, state in jobs.items() if label not in reported]
            if new:
                reported.update(jobs)
                on_cancel(new)
            if time.monotonic() > deadline:
                listed = ", ".join(f"{label} ({state})" for label, state in jobs.items())
                raise StoreError(
                    "The jobs that an earlier controller of this campaign left in the queue were cancelled, and are "
                    f"still there after {timeout:.0f} s: {listed}. Two attempts must not run beside each other. Cancel "
                    "them by hand, or wait until the scheduler gives up a node that does not answer; then resume."
                )
            time.sleep(_POLL)


def _group_by_launcher(
    pending: Iterable[CampaignCase], registry: Registry
) -> list[tuple[Topology, Any, set[str]]]:
    """Return each launcher with each of its options that occur, and the ids of all jobs that its cases may have."""
    launchers: dict[str, Topology] = {}
    groups: dict[tuple[str, str], tuple[Topology, Any, set[str]]] = {}
    for case in pending:
        name = case.spec.topology.launcher
        if name not in launchers:
            launchers[name] = registry.topology(name)
        options = options_of(launchers[name], case.spec)
        _, _, ids = groups.setdefault((name, repr(options)), (launchers[name], options, set()))
        ids.update(f"{prefix}{case.id}" for prefix in PREFIXES)
    return list(groups.values())


def _cancel_jobs(launcher: Topology, options: Any, ids: set[str], deadline: float) -> dict[str, str]:
    """Return the jobs that are still there; ask until the launcher answers, or until the deadline."""
    while True:
        try:
            return dict(launcher.cancel_orphaned_jobs(ids, options))
        except Unavailable as error:
            if time.monotonic() > deadline:
                raise StoreError(
                    f"An earlier controller of this campaign may have left jobs in the queue of {launcher.name}, which "
                    f"does not answer: {error} Two attempts must not run beside each other. Resume when the queue "
                    "answers."
                ) from error
        time.sleep(_POLL)


def wait_for_processes(ids: Iterable[str], timeout: float = AGENT_TIMEOUT) -> bool:
    """Wait until no agent on this machine belongs to one of the given runs.

    Two attempts of one campaign must not run at the same time: both measurements would be wrong.

    Args:
        ids: Ids of the runs.
        timeout: Maximum seconds to wait.

    Returns:
        True if such an agent still ran at the time of the call.

    Raises:
        StoreError: An agent still runs after the timeout.
    """
    names, deadline, waited = tuple(ids), time.monotonic() + timeout, False
    while True:
        pids = find_agents(names)
        if not pids:
            return waited
        if time.monotonic() > deadline:
            raise StoreError(
                "Processes of an earlier controller of this campaign, or of a copy of it, are still running: "
                f"{', '.join(map(str, pids[:8]))}. Wait for them, or end them; then resume."
            )
        waited = True
        time.sleep(0.1)


def find_agents(ids: tuple[str, ...]) -> list[int]:
    """Return the process ids of the agents on this machine that belong to the runs with the given ids.

    An agent is recognized by the run's id in its command. Processes that have ended and are not yet reaped are left
    out.
    """
    marks = {f"{prefix}{id}{suffix}" for id in ids for prefix in PREFIXES for suffix in ("", ".pyz")}
    pids = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            state = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            continue
        if state != "Z" and any(argument.rpartition("/")[2] in marks for argument in arguments):
            pids.append(int(entry.name))
    return pids
