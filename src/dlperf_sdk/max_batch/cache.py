"""The cache of maximum batch sizes: one file per set of conditions that determine the limit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from dlperf_sdk import folders, private_files
from dlperf_sdk.documents.reading import load_document
from dlperf_sdk.errors import DlperfError, Unavailable


def directory() -> Path:
    """Return the cache's directory, which need not exist.

    It is the folder `largest` in the directory DLPERF_CACHE_DIR or, if that variable is not set, in the folder `dlperf`
    of the user's cache.

    Raises:
        Unavailable: The user has no cache directory.
    """
    return folders.cache() / "largest"


def read(key: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the cached result of a search for the largest batch size under exactly the conditions `key`.

    Args:
        key: Name of each condition → JSON value, as `resolve.cache_key` returns them.

    Returns:
        A dict with `key` (the conditions), `size` (the largest size that fits, in units of `accumulation` samples per
        device) and `probes` (the number of probes that it took); None if the cache has no readable result for `key`.
    """
    with suppress(DlperfError):
        document = load_document(_path(key))
        numbers = document.get("size"), document.get("probes")
        if document.get("key") == _to_plain(key) and all(
            type(number) is int and number >= 1 for number in numbers
        ):
            return document
    return None


def write(key: Mapping[str, Any], size: int, probes: int) -> None:
    """Write the result of a search for the largest batch size to the cache. A failure to write is ignored.

    Args:
        key: The conditions, as `resolve.cache_key` returns them.
        size: The largest size that fits, in units of the search: `accumulation` samples per device.
        probes: Number of probes that the search took.
    """
    with suppress(OSError, Unavailable):
        directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        document = {"key": _to_plain(key), "size": size, "probes": probes}
        private_files.write(_path(key), (json.dumps(document, indent=1) + "\n").encode())


def _to_plain(key: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(key, sort_keys=True, default=str))


def _path(key: Mapping[str, Any]) -> Path:
    digest = hashlib.sha256(json.dumps(_to_plain(key), sort_keys=True).encode()).hexdigest()[:24]
    return directory() / f"{digest}.json"
