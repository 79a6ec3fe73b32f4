"""Recognize exceptions that show that a resource of this machine ran out. Standard library only; Python 3.7 syntax."""

import errno
import os
import resource
from typing import Optional

from dlperf_sdk.worker.memory import address_space_limit


def describe_exhaustion(error: BaseException, process: str) -> Optional[str]:
    """Return sentences that name the exhausted resource and the remedy; None if the exception has another cause.

    Resources are memory, disk space, file descriptors, processes and threads.

    Args:
        error: An exception that the process has raised.
        process: The process's name at the beginning of a sentence, such as `The controller`.
    """
    if isinstance(error, MemoryError):
        return _memory(process, "no memory left")
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return _processes(process, "no new thread could be started")
    if not isinstance(error, OSError):
        return None
    reason = error.strerror or str(error)
    if error.strerror and error.filename is not None:
        reason += " (%s)" % os.fsdecode(error.filename)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        # What `tempfile` takes first; a trainer does not import it.
        folder = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108
        message = "The disk or quota is full: %s. Make room there, or set TMPDIR (now %s) to another folder."
        return message % (reason, folder)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return "%s had no file descriptor left: %s. Raise `ulimit -n`, which is %d." % (
            process,
            reason,
            limit,
        )
    if error.errno == errno.ENOMEM:
        return _memory(process, reason)
    if error.errno == errno.EAGAIN:
        return _processes(process, reason)
    return None


def _memory(process: str, reason: str) -> str:
    return "%s ran out of memory: %s. End other processes of this machine.%s" % (
        process,
        reason,
        _address_space(),
    )


def _processes(process: str, reason: str) -> str:
    limit = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    message = (
        "%s could not start a process or thread: %s. Raise `ulimit -u` (now %s) or end other processes.%s"
    )
    return message % (
        process,
        reason,
        "unlimited" if limit == resource.RLIM_INFINITY else limit,
        _address_space(),
    )


def _address_space() -> str:
    """Return the advice to raise the limit of the address space, which limits threads too; empty if unlimited."""
    limit = address_space_limit()
    return "" if limit is None else " Raise `ulimit -v`, which is %d KiB." % (limit // 1024)
