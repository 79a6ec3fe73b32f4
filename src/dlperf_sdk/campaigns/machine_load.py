"""Load of other processes on the machines of a campaign, to note it or to wait for an idle machine.

The controller measures its own machine. The load of other nodes is in the samples of their agents.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Mapping, Sequence
from typing import Any

import psutil
from attrs import frozen

from dlperf_sdk.documents.json_values import replace_control_characters
from dlperf_sdk.results.records import Repeat

LOOK = 1.0
"""Seconds between two snapshots while waiting for an idle machine."""


@frozen
class Snapshot:
    """Processor seconds that a machine and its processes have used up to a moment."""

    taken_at: float
    """Moment on the monotonic clock, in seconds."""
    busy: float
    """Processor seconds of the whole machine that were not idle."""
    own_seconds: float
    """Processor seconds of this process and of its children that have ended."""
    processes: dict[int, tuple[str, float]]
    """Process id → name and processor seconds."""


@frozen
class Foreign:
    """Processor use between two snapshots by processes other than this one and its children."""

    share: float
    """Fraction of all cores of the machine, from 0 to 1."""
    busiest: str
    """Name and process id of the process that used most; empty if none that still runs used more than 5 % of a core."""


def take_snapshot() -> Snapshot:
    """Return the processor seconds that this machine and its processes have used up to now.

    This takes a few milliseconds.
    """
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0) + getattr(times, "steal", 0.0)
    guest = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # included in user
    used = [resource.getrusage(target) for target in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    processes = {}
    for process in psutil.process_iter(["name", "cpu_times"]):
        spent = process.info["cpu_times"]
        if spent is not None:
            processes[process.pid] = (process.info["name"] or "?", spent.user + spent.system)
    own_seconds = sum(usage.ru_utime + usage.ru_stime for usage in used)
    return Snapshot(time.monotonic(), sum(times) - idle - guest, own_seconds, processes)


def foreign_load(before: Snapshot, after: Snapshot) -> Foreign:
    """Return the processor use between two snapshots by processes other than this one and its children.

    All children of this process must have ended by the second snapshot; else their use counts as foreign.
    """
    cores = os.cpu_count() or 1
    passed = max(after.taken_at - before.taken_at, 1e-6)
    used = max(0.0, (after.busy - before.busy) - (after.own_seconds - before.own_seconds))
    spent = {
        pid: (seconds - before.processes.get(pid, ("", 0.0))[1], name)
        for pid, (name, seconds) in after.processes.items()
        if pid != os.getpid()
    }
    busiest_pid = max(spent, key=lambda pid: spent[pid][0], default=None)
    busiest = ""
    if busiest_pid is not None and spent[busiest_pid][0] > 0.05 * passed:
        busiest = f"{replace_control_characters(spent[busiest_pid][1])} ({busiest_pid})"
    return Foreign(min(1.0, used / (passed * cores)), busiest)


def note(load: Foreign, period: str) -> str:
    """Return a sentence about the load by other processes on this machine.

    Args:
        load: The processor use by other processes.
        period: Start of the sentence, such as "During repeat 2".
    """
    source = f", most of it {load.busiest}" if load.busiest else ""
    return f"{period}, other processes used {100 * load.share:.0f} % of this machine's cores{source}."


def foreign_load_by_node(
    repeat: Repeat, nodes: Sequence[Mapping[str, Any]], local_boot_id: str | None
) -> dict[int, float]:
    """Return the processor use by other processes on each remote node during a repeat, from the agents' samples.

    Nodes on this machine, nodes that share a machine, and nodes without samples are left out.

    Args:
        repeat: The repeat.
        nodes: The hardware of each node, as `Result.hardware` has it, by node index. Only the key `boot_id` is used.
        local_boot_id: The boot id of this machine; None if it is unknown.

    Returns:
        Index of a node → fraction of its processor time, from 0 to 1.
    """
    boots = [facts.get("boot_id") for facts in nodes]
    increases: dict[tuple[int, str], float] = {
        (series.node, series.name): series.values[-1] - series.values[0]
        for series in repeat.series
        if series.device == "host" and series.kind == "counter" and series.values
    }
    shares = {}
    for node, boot in enumerate(boots):
        seconds = [increases.get((node, f"cpu-{state}")) for state in ("busy", "idle", "steal", "own")]
        if boot is None or boot == local_boot_id or boots.count(boot) > 1 or None in seconds:
            continue
        busy, idle, steal, own_seconds = (share or 0.0 for share in seconds)
        total = busy + idle + steal
        if total > 0:
            shares[node] = min(1.0, max(0.0, busy - own_seconds) / total)
    return shares


def describe_node_load(node: int, share: float, period: str) -> str:
    """Return a sentence about the load by other processes on a node.

    Args:
        node: Index of the node.
        share: Fraction of the node's cores that other processes used, from 0 to 1.
        period: Start of the sentence, such as "During repeat 2".
    """
    return f"{period}, other processes used {100 * share:.0f} % of the cores of node {node}."


def count_device_processes(repeat: Repeat) -> dict[tuple[int, str], int]:
    """Return, for each device, the maximum number of other processes that used it during the window of a repeat.

    Returns:
        (index of the node, device) → number of processes besides the case's own. Devices without any are left out.
    """
    counts = {}
    for series in repeat.series:
        if series.name != "processes":
            continue
        windows = [record.window for record in repeat.records if record.node == series.node]
        samples = [
            value
            for sampled_at, value in zip(series.times, series.values, strict=True)
            if any(window.start <= sampled_at <= window.end for window in windows)
        ]
        if max(samples, default=0) > 1:
            counts[series.node, series.device] = int(max(samples)) - 1
    return counts


def describe_device_processes(node: int, device: str, count: int, period: str) -> str:
    """Return a sentence about other processes on a device.

    Args:
        node: Index of the node.
        device: Identifier of the device on the node.
        count: Number of other processes that computed on the device, at least 1.
        period: Start of the sentence, such as "During repeat 2".
    """
    users = "another process" if count == 1 else f"{count} other processes"
    return f"{period}, {users} computed on {device} of node {node}."


def wait_for_quiet(share: float, timeout: float) -> Foreign | None:
    """Wait until other processes use at most a given fraction of this machine's cores, at most for `timeout` seconds.

    At least one measurement of `LOOK` (1) seconds is made.

    Args:
        share: The fraction, from 0 to 1.
        timeout: Maximum seconds to wait.

    Returns:
        None as soon as the load is at most `share`; after the timeout, the last measured load.
    """
    end = time.monotonic() + timeout
    while True:
        before = take_snapshot()
        time.sleep(LOOK)
        load = foreign_load(before, take_snapshot())
        if load.share <= share:
            return None
        if time.monotonic() >= end:
            return load
