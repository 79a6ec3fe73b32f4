"""Limit the memory of a worker process, so that a lack of memory is an error of this process only."""

import resource
from typing import Dict, List, Optional


def limit(count: int) -> None:
    """Let this process and its future children allocate at most `count` bytes each; further allocations fail.

    A lower hard limit takes precedence; the hard limit does not change. The limit is RLIMIT_DATA, which counts private
    writable memory, anonymous mappings included, since Linux 4.7. Unlike RLIMIT_AS it leaves out libraries and files
    that are only mapped.
    """
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard != resource.RLIM_INFINITY:
        count = min(count, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (count, hard))


def remove_limit() -> None:
    """Raise this process's limit of memory, RLIMIT_DATA, to the hard limit, which undoes `limit`.

    A process does this to report that it has reached the limit, since the report takes memory, too.
    """
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def address_space_limit() -> Optional[int]:
    """Return this process's limit of its address space in bytes, as set by `ulimit -v`; None without a limit."""
    count = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if count == resource.RLIM_INFINITY else count


def read_used_memory() -> int:
    """Return the bytes of this process's memory that count towards the limit that `limit` sets: VmData of Linux.

    Raises:
        OSError: There is no /proc, as on systems other than Linux.
    """
    return _status("VmData")[0]


def _status(*names: str) -> List[int]:
    """Return the named fields of this process's `/proc/self/status`, in bytes."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        lines = dict(line.split(":", 1) for line in file if ":" in line)
    return [int(lines[name].split()[0]) * 1024 for name in names]


_PHRASES = (
    "cannot allocate memory",  # the C library's ENOMEM; the dynamic linker's
    "failed to map segment",
    "memory allocation",  # OpenBLAS
    "bad_alloc",
    "out of memory",
    "memoryerror",
    "can't start new thread",  # its stack is memory as well
    "pthread_create failed",
    "resource temporarily unavailable",  # the C library's EAGAIN, where a thread cannot be started
    "allocate failed",  # a framework's own thread, which ends the process with it
)


def reports_out_of_memory(text: str) -> bool:
    """Return True if a text contains a phrase with which libraries report that memory could not be allocated.

    Some libraries end the process with such a message, which is the only evidence. Call this only for a process with
    a memory limit, because some of the phrases have other causes as well.

    Args:
        text: An exception's message, or the end of a log.
    """
    return any(phrase in text.lower() for phrase in _PHRASES)


def facts(limit: Optional[int]) -> Dict[str, int]:
    """Return an estimate of this process's peak of the memory that RLIMIT_DATA counts, for the record.

    RLIMIT_DATA counts VmData, for which Linux keeps no peak. It keeps VmPeak, the peak of the address space VmSize.
    The rest of the address space hardly changes, so the peak is estimated as VmData + VmPeak - VmSize.

    Args:
        limit: The process's limit in bytes; None without a limit.

    Returns:
        A dict with `allocated_memory` in bytes; empty without a limit.

    Raises:
        OSError: There is a limit, but no /proc, as on systems other than Linux.
    """
    if limit is None:
        return {}
    peak, size, data = _status("VmPeak", "VmSize", "VmData")
    return {"allocated_memory": data + peak - size}
