"""A bound on what a worker process may allocate: running out of memory is then an error, not the machine's end."""

import resource
from typing import Dict, Optional


def limit(count: int) -> None:
    """Let this process and its children allocate at most so many bytes each.

    RLIMIT_DATA counts private writable memory, anonymous mappings included, since Linux 4.7; unlike RLIMIT_AS it leaves
    out libraries and files that are only mapped.
    """
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    if hard != resource.RLIM_INFINITY:
        count = min(count, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (count, hard))


def facts(limit: Optional[int]) -> Dict[str, int]:
    """Under a limit, the most of it that was in use at any time, in bytes; without one, nothing.

    Linux keeps no peak of what RLIMIT_DATA counts (VmData), but one of the whole address space (VmPeak), of which the
    rest, libraries and what is only reserved, hardly changes. What a step gives back before it ends counts as well.
    """
    if limit is None:
        return {}
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        lines = dict(line.split(":", 1) for line in file if ":" in line)
    peak, size, data = (int(lines[name].split()[0]) for name in ("VmPeak", "VmSize", "VmData"))
    return {"allocated_memory": (data + peak - size) * 1024}
