"""Convert exceptions that show a lack of a resource of this machine to failures that name the remedy."""

from __future__ import annotations

import errno
import os
import resource
import tempfile

from dlperf_sdk.results.records import Failure


def resource_failure(error: BaseException) -> Failure | None:
    """Return the failure for an exception that shows that a resource of this machine ran out; None for any other.

    Such resources are memory, disk, file descriptors, processes, and a usable folder for temporary files. The
    failure has the kind `unavailable`.
    """
    message = None
    if isinstance(error, MemoryError):
        message = _memory("no memory left")
    elif isinstance(error, OSError):
        message = _refusal(error)
    elif isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        message = _processes("no new thread could be started")
    return None if message is None else Failure("unavailable", message)


def _refusal(error: OSError) -> str | None:
    """Describe what the system refused; None if it is about something else than a resource."""
    reason = f"{error.strerror}{_place(error)}" if error.strerror else str(error)
    message = None
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            message = (
                f"The disk or quota is full: {reason}. Make room there, or set TMPDIR to another folder."
            )
        case errno.EMFILE | errno.ENFILE:
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            message = f"No file descriptor was left: {reason}. Raise `ulimit -n`, which is {limit}."
        case errno.ENOMEM:
            message = _memory(reason)
        case errno.EAGAIN:
            message = _processes(reason)
        case errno.EROFS | errno.EACCES | errno.ENOENT | errno.ENOTDIR if _is_temporary(error):
            message = (
                f"The folder for temporary files cannot be used: {reason}. Make it again, or set TMPDIR to a folder "
                "that you can write to."
            )
    return message


def _is_temporary(error: OSError) -> bool:
    """Return True if an error is about the folder for temporary files, or none of them can be used."""
    folder = tempfile.tempdir
    if folder is None:
        return error.errno == errno.ENOENT and "No usable temporary directory" in str(error)
    return isinstance(error.filename, str | bytes) and os.fsdecode(error.filename).startswith(folder)


def _place(error: OSError) -> str:
    return "" if error.filename is None else f" ({os.fsdecode(error.filename)})"


def _memory(reason: str) -> str:
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    advice = "" if limit == resource.RLIM_INFINITY else f" Raise `ulimit -v`, which is {limit // 1024} KiB."
    return f"The controller ran out of memory: {reason}. End other processes of this machine.{advice}"


def _processes(reason: str) -> str:
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    return f"No process or thread could be started: {reason}. Raise `ulimit -u` (now {limit}) or end other processes."
