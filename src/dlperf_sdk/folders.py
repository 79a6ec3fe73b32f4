"""Locate the directories of results, caches and settings: the working directory, and the user's folders.

Also where somebody has none: containers run under numbers that the system knows no user for.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from dlperf_sdk.errors import Unavailable

RESULTS = Path("dlperf-results")
"""Results, unless somebody says otherwise: a directory per run."""
CAMPAIGNS = Path("dlperf-campaigns")
"""Campaigns, unless somebody says otherwise: a directory each."""


def expand_home(text: str | Path) -> Path:
    """Return a path with the home directory in place of a leading `~` or `~USER`; unchanged for an unknown user."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 - pathlib's raises where nobody is known


def home(environ: Mapping[str, str]) -> Path | None:
    """Return the home directory: HOME in the variables `environ`, else the system's entry; None if there is none."""
    directory = Path(environ.get("HOME") or expand_home("~"))
    return directory if directory.is_absolute() else None


def cache() -> Path:
    """Return the folder of data kept between runs: DLPERF_CACHE_DIR, else `dlperf` in the user's cache.

    It may not exist.

    Raises:
        Unavailable: nobody has named it, and the user has no home directory.
    """
    named = os.environ.get("DLPERF_CACHE_DIR")
    try:
        folder = expand_home(named or _usual())
    except RuntimeError:  # newer versions; older ones give a path that begins with "~"
        folder = Path("~/.cache/dlperf")
    if str(folder).startswith("~"):
        raise Unavailable(
            f"There is no place for what is kept between runs: {folder} is in a home directory, and the system knows "
            "none. Set DLPERF_CACHE_DIR to a folder that you can write to."
        )
    return folder.absolute()


def _usual() -> str:
    """Return this system's usual cache folder for dlperf.

    platformdirs is imported here: worker tests, which set DLPERF_CACHE_DIR, run without it.
    """
    import platformdirs

    return platformdirs.user_cache_dir("dlperf")
