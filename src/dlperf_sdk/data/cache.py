"""The directory of prepared data, and the callback for the progress of its preparation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dlperf_sdk import folders
from dlperf_sdk.errors import Unavailable

Progress = Callable[[str, int, int], None]
"""Called with a stage, the amount done, and the total amount."""


def ignore_progress(stage: str, done: int, total: int) -> None:
    """Ignore a report of progress: the default callback.

    Args:
        stage: The stage of the preparation, as text.
        done: The amount done.
        total: The total amount.
    """


def directory() -> Path:
    """Return the directory of prepared data, `data` in DLPERF_CACHE_DIR or the user's cache; create it if needed.

    Raises:
        Unavailable: The directory cannot be created, or the user has no cache directory.
    """
    root = folders.cache() / "data"
    try:
        # With `parents`, mkdir would create the parent readable by all users.
        root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        root.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"The cache directory {root} cannot be made: {error.strerror}. Prepared data is kept there; name "
            "a place that can be written to in DLPERF_CACHE_DIR."
        ) from error
    return root
