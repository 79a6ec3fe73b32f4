"""Tie processes to their agent, so that none outlives it, by means of Linux system calls through ctypes."""

import ctypes
import os
import signal
import sys
from typing import Any, Callable, List

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_skips: List[bool] = []


def _prctl(option: int, value: int) -> None:
    try:
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
    except (OSError, AttributeError):
        pass  # not Linux: the lifeline on standard input still tells a worker that its agent is gone


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends.

    If the parent has ended already, the process exits at once with code 1. Only Linux can do this; elsewhere nothing
    happens when the parent ends.

    Args:
        parent: Process id of the parent.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # the parent ended before the kernel was asked


def handle_termination(handler: Callable[..., Any]) -> None:
    """Install a handler for SIGTERM, and for SIGHUP unless this process ignores SIGHUP, as under nohup.

    Args:
        handler: A signal handler, as `signal.signal` takes it.

    Raises:
        ValueError: This is not the main thread.
    """
    signal.signal(signal.SIGTERM, handler)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, handler)


def exit_on_termination() -> None:
    """Install handlers that raise SystemExit(1) in the main thread at the first SIGTERM or SIGHUP; unblock both.

    Later signals have no effect: several programs may each send one, and the second must not interrupt the removal of
    a directory. If SIGHUP is ignored when this is called, as under nohup, it stays ignored.

    Raises:
        ValueError: This is not the main thread.
    """
    signals: List[Any] = []

    def exit_once(*received: Any) -> None:
        signals.append(received)
        if len(signals) == 1:
            sys.exit(1)

    handle_termination(exit_once)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM, signal.SIGHUP))


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent ends, so that `children` returns them.

    Only Linux can do this; elsewhere this call does nothing.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def children() -> List[int]:
    """Return the process ids of this process's children, in any order; empty if there are none.

    Adopted children are included (`adopt_orphans`), and children that have ended but were not waited for.

    Raises:
        OSError: There is no /proc, as on systems other than Linux.
    """
    own_pid, pids = os.getpid(), []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as file:
                    after_name = file.read().rpartition(b")")[2].split()
            except OSError:
                continue  # it has just ended
            if int(after_name[1]) == own_pid:
                pids.append(int(name))
    return pids


def skip_finalization() -> None:
    """Arrange that this process, when it exits, ends after its `atexit` functions without finalizing the interpreter.

    Returns at once, and does not change the exit code. A runtime's `stop` calls it if the framework's threads hold
    Python objects, and would abort the process by releasing them during finalization. Do not call it for other
    frameworks: they leave their process group during finalization.
    """
    _skips.append(True)


def needs_finalization() -> bool:
    """Return True if this process has not called `skip_finalization`, so that the interpreter must be finalized."""
    return not _skips
