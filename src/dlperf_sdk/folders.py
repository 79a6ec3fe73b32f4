"""The directories of results, caches and settings: in the working directory, and in the user's folders.

A user may have no home directory: containers run with user ids that the system does not know.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dlperf_sdk.errors import Unavailable

RESULTS = Path("dlperf-results")
"""Default directory of results, with a directory per run."""
CAMPAIGNS = Path("dlperf-campaigns")
"""Default parent directory of campaigns."""
FLEETS = Path("dlperf-fleets")
"""Default parent directory of fleets."""


def expand_home(text: str | Path) -> Path:
    """Return a path with the home directory in place of a leading `~` or `~USER`; unchanged for an unknown user."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 - pathlib's raises where nobody is known


def follow_links(path: Path) -> Path:
    """Return an absolute path without links and `..`; links in a circle remain, so that opening the path fails.

    The path need not exist.
    """
    return Path(os.path.realpath(path))


def home(environ: Mapping[str, str]) -> Path | None:
    """Return the user's home directory; None if there is none, or if its path is not absolute.

    Args:
        environ: Environment variables. HOME is used if it is set and not empty, else the system's entry for this user.
    """
    directory = Path(environ.get("HOME") or expand_home("~"))
    return directory if directory.is_absolute() else None


def cache() -> Path:
    """Return the absolute path of the folder for data that is kept between runs; it may not exist.

    It is DLPERF_CACHE_DIR if that is set, else `dlperf` in the user's cache folder.

    Raises:
        Unavailable: The path begins in a home directory that the system does not know.
    """
    named = os.environ.get("DLPERF_CACHE_DIR")
    try:
        folder = expand_home(named or _usual())
    except RuntimeError:  # newer versions of platformdirs; older ones return a path that begins with "~"
        folder = Path("~/.cache/dlperf")
    if str(folder).startswith("~"):
        raise Unavailable(
            f"The cache folder {folder} is in a home directory, and the system has no home directory for this "
            "user. Set DLPERF_CACHE_DIR to a folder that you can write to."
        )
    return folder.absolute()


def private_cache(name: str) -> Path | None:
    """Return a folder of the cache for data that others must not write, and create it if it is missing.

    Args:
        name: The folder's name inside the cache.

    Returns:
        The folder's path. None if it cannot be created, belongs to another user, or is writable by others: whoever
        could write there could forge its content.
    """
    try:
        folder = cache() / name
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder if is_own(folder.lstat(), stat.S_ISDIR) else None
    except (OSError, Unavailable):
        return None


def is_own(status: os.stat_result, kind: Any) -> bool:
    """Return True if a file is of a given kind, belongs to this user, and is not writable by group or others.

    Args:
        status: The file's status.
        kind: A function that takes a file's mode and returns True for the kind, such as `stat.S_ISREG`.
    """
    return bool(kind(status.st_mode)) and status.st_uid == os.getuid() and not status.st_mode & 0o022


def _usual() -> str:
    """Return this system's usual cache folder for dlperf.

    platformdirs is imported here: worker tests, which set DLPERF_CACHE_DIR, run without it.
    """
    import platformdirs

    return platformdirs.user_cache_dir("dlperf")
