"""Find what a run left behind: processes, temporary files, and shared memory that no process uses."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import frozen

from dlperf_sdk.testing.conformance import advice

MARK = "DLPERF_CONFORMANCE"
"""Name of the environment variable whose value marks the processes of a run."""
SHARED = Path("/dev/shm")  # noqa: S108 - nothing is made there
"""Directory of shared memory."""
PATIENCE = 5.0
"""Seconds to wait for shared memory to be removed: other programs on this machine use it for short times, too."""


def check_leftovers(run: Callable[[Mapping[str, str]], object]) -> None:
    """Call `run`, and fail the test if it leaves a process, a file in TMPDIR, or shared memory that no process uses.

    If shared memory is left, `run` is called a second time, because that memory may belong to another program. The
    test then fails only if the second call leaves shared memory, too.

    Args:
        run: Function that runs a case, called with a dict of environment variables (name → value) for all its
            processes. It raises an exception if the run fails.

    Raises:
        AssertionError: Something is left; the message lists it.
    """
    mark, before = uuid.uuid4().hex, _list_shared_memory()
    with TemporaryDirectory(prefix="dlperf-conformance-") as folder:
        run({MARK: mark, "TMPDIR": folder})
        # Empty folders are caches that are made once per user, and do not grow.
        remaining = sorted(
            str(path.relative_to(folder)) for path in Path(folder).rglob("*") if not path.is_dir()
        )
    assert not list_live_processes(mark), advice(
        f"After the run these processes are still there: {list_live_processes(mark)}.",
        "they take time and memory from the next measurement",
        "end helpers (loaders, servers) in `Runtime.stop`, or start them so that they end with their parent",
    )
    assert not remaining, advice(
        f"After the run these files are left in TMPDIR: {', '.join(remaining[:10])}.",
        "a campaign makes thousands of them, and disks are finite",
        "remove them in `Runtime.stop`; what lies in the worker's own working directory is removed for you",
    )
    orphans = _orphaned_segments(before)
    if orphans:  # or somebody else's, who was killed meanwhile: what leaves some does so every time
        before = _list_shared_memory()
        run({MARK: uuid.uuid4().hex})
        orphans = _orphaned_segments(before)
    assert not orphans, advice(
        f"After the run these shared memory segments are left, and no process uses them: {', '.join(orphans[:10])}.",
        "they occupy memory of the machine until they are removed by hand",
        "unlink them in `Runtime.stop`, or as soon as all processes have opened them",
    )


def list_live_processes(mark: str) -> list[str]:
    """Return the command lines of this machine's processes whose variable `DLPERF_CONFORMANCE` has a given value.

    This process, and processes whose environment cannot be read, such as another user's, are left out. The list is
    empty if there are no others.

    Args:
        mark: The value that `check_leftovers` gave the variable in the environment of a run's processes.
    """
    commands = []
    for process in _processes():
        try:
            environment = (process / "environ").read_bytes()
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        if f"{MARK}={mark}".encode() in environment and line:
            commands.append(line)
    return commands


@frozen
class Shared:
    """The identity of a file in shared memory. A new file under the same path has another identity."""

    path: str
    """Path of the file."""
    number: int
    """Its inode."""
    created_ns: int
    """Time of the last change of its inode, in nanoseconds since the epoch."""


def _list_shared_memory() -> frozenset[Shared]:
    """Return the files in shared memory that belong to this user, without those that are removed during the call."""
    files = set()
    for folder, _, names in os.walk(SHARED):
        for name in names:
            path = Path(folder, name)
            with suppress(OSError):  # gone meanwhile
                status = path.lstat()
                if status.st_uid == os.getuid():
                    files.add(Shared(str(path), status.st_ino, status.st_ctime_ns))
    return frozenset(files)


def _orphaned_segments(before: frozenset[Shared]) -> list[str]:
    """Return the paths of the files in shared memory that are not in `before` and that no process has open or mapped.

    Wait up to `PATIENCE` seconds until there are none. Files that only processes of other users have open may be
    included.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        new = {file.path for file in _list_shared_memory() - before}
        remaining = sorted(new - _list_open_segments()) if new else []
        if not remaining or time.monotonic() > deadline:
            return remaining
        time.sleep(0.1)


def _list_open_segments() -> set[str]:
    """Return the files in shared memory that processes have open or mapped, as far as this user may see."""
    paths = set()
    for process in (*_processes(), Path("/proc/self")):
        with suppress(OSError):
            lines = (process / "maps").read_bytes().splitlines()
            paths |= {os.fsdecode(line.split(maxsplit=5)[-1]) for line in lines}
        with suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with suppress(OSError):
                    paths.add(str(descriptor.readlink()))
    return paths


def _processes() -> Iterator[Path]:
    """Yield the directories of all other processes in /proc."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            yield entry
