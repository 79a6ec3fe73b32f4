"""Assign processors to a worker, and limit its threads.

A processor is a hardware thread, as the kernel counts them.
"""

import os
from typing import Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple


def share(cpus_by_numa: Mapping[int, Sequence[int]], index: int, count: int) -> Tuple[int, ...]:
    """Return the processors of one worker: its share of the usable processors.

    With at least as many processors as workers, each processor is in exactly one share. The shares' sizes differ by at
    most one, because the slowest worker sets the pace. If possible, no share spans two NUMA nodes. With fewer
    processors than workers, each share is one processor, which several workers use.

    Args:
        cpus_by_numa: NUMA node → the numbers of its usable processors, as the function `cpus_by_numa` returns them.
        index: Index of the worker among those on this machine, from 0.
        count: Number of workers on this machine.

    Returns:
        The numbers of the processors, in the order of `cpus_by_numa`; at least one.

    Raises:
        ValueError: The index is outside 0 … count - 1, or there are no processors.
    """
    nodes = [list(cpus_by_numa[node]) for node in sorted(cpus_by_numa) if cpus_by_numa[node]]
    all_cpus = [cpu for cpus in nodes for cpu in cpus]
    total = len(all_cpus)
    if not all_cpus or not 0 <= index < count:
        raise ValueError("no worker %d of %d on %d processors" % (index, count, total))
    if count > total:
        return (all_cpus[index % total],)
    first = index
    for cpus, workers in zip(nodes, _workers([len(cpus) for cpus in nodes], count)):
        if first < workers:
            return _slice(cpus, first, workers)
        first -= workers
    return _slice(all_cpus, index, count)


def _workers(sizes: Sequence[int], count: int) -> List[int]:
    """Return each node's number of workers so that every share is the mean rounded down or up; empty if impossible."""
    total = sum(sizes)
    minimum, maximum = total // count, -(-total // count)
    # A node of s processors can be cut into w shares of `minimum` to `maximum` if w * minimum <= s <= w * maximum.
    minima = [-(-size // maximum) for size in sizes]
    room = [size // minimum - assigned_count for size, assigned_count in zip(sizes, minima)]
    extra = count - sum(minima)
    if min(room) < 0 or not 0 <= extra <= sum(room):
        return []
    assigned = []
    for assigned_count, free in zip(minima, room):
        assigned.append(assigned_count + min(free, extra))
        extra -= min(free, extra)
    return assigned


def _slice(cpus: Sequence[int], index: int, count: int) -> Tuple[int, ...]:
    return tuple(cpus[index * len(cpus) // count : (index + 1) * len(cpus) // count])


def set_aside(
    cpus: Sequence[int], count: int, root: str = "/sys"
) -> Tuple[Tuple[int, ...], List[Tuple[int, ...]]]:
    """Divide a worker's share between the worker and processes that prepare its input, which get a core each.

    If that would leave the worker without a core, all of them use the whole share.

    Args:
        cpus: The share's processors.
        count: Number of the other processes.
        root: Where sysfs is mounted.

    Returns:
        The worker's processors, and a list with those of each of the other processes, which get the last cores. The
        list is empty if `count` is 0.
    """
    cores: Dict[int, List[int]] = {}
    for cpu in cpus:
        cores.setdefault(_core(root, cpu), []).append(cpu)
    threads = list(cores.values())
    if not 0 < count < len(threads):
        return tuple(cpus), [tuple(cpus)] * count
    remaining = tuple(cpu for core in threads[:-count] for cpu in core)
    return remaining, [tuple(core) for core in threads[-count:]]


def cpus_by_numa(root: str = "/sys", allowed: Optional[Iterable[int]] = None) -> Dict[int, Tuple[int, ...]]:
    """Return the processors that this process may use, by NUMA node; hardware threads of one core follow each other.

    A processor that the kernel lists under no NUMA node counts as one of node 0.

    Args:
        root: Where sysfs is mounted.
        allowed: The processors to divide; None for those of this process's affinity.

    Returns:
        NUMA node → the numbers of its processors, ordered by core, in ascending order of the nodes. Nodes without a
        usable processor are absent.
    """
    usable = set(os.sched_getaffinity(0) if allowed is None else allowed)
    by_node: Dict[int, List[int]] = {}
    folder = os.path.join(root, "devices/system/node")
    for name in _listed(folder):
        if name.startswith("node") and name[4:].isdigit():
            processors = parse_cpu_list(_text(os.path.join(folder, name, "cpulist"))) & usable
            if processors:
                by_node[int(name[4:])] = list(processors)
    unassigned = usable.difference(*by_node.values())
    if unassigned:
        by_node.setdefault(0, []).extend(unassigned)
    # Ordered by core first: a share of neighbors then holds whole cores, where it can.
    return {
        node: tuple(sorted(by_node[node], key=lambda cpu: (_core(root, cpu), cpu)))
        for node in sorted(by_node)
    }


def core_count(cpus: Iterable[int], root: str = "/sys") -> int:
    """Return the number of physical cores of these processors; hardware threads of one core count once.

    Args:
        cpus: Numbers of the processors.
        root: Where sysfs is mounted.
    """
    return len({_core(root, cpu) for cpu in cpus})


def parse_cpu_list(text: str) -> Set[int]:
    """Return the numbers in a list such as `0-3,8,10-11`, the kernel's form; entries of another form are left out."""
    cpus: Set[int] = set()
    for part in text.strip().split(","):
        low, _, high = part.partition("-")
        if low.isdigit() and (high or low).isdigit():
            cpus.update(range(int(low), int(high or low) + 1))
    return cpus


def thread_variables(threads: int) -> Dict[str, str]:
    """Return the environment variables, as name → value, that give a worker this many threads.

    OMP_NUM_THREADS also sets the number of threads of MKL and OpenBLAS. OMP_WAIT_POLICY is PASSIVE, since OpenMP's
    threads otherwise spin while they wait: two threads that spin on one core make a step up to twenty times slower.

    Args:
        threads: Number of threads; a number below 1 counts as 1.
    """
    return {"OMP_NUM_THREADS": str(max(1, threads)), "OMP_WAIT_POLICY": "PASSIVE"}


def _core(root: str, cpu: int) -> int:
    """Return the lowest-numbered hardware thread of this processor's core."""
    path = os.path.join(root, "devices/system/cpu/cpu%d/topology/thread_siblings_list" % cpu)
    return min(parse_cpu_list(_text(path)) or {cpu})


def _listed(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
