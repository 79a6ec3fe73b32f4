"""Records of parity runs that did not fail, stored in the user's cache and checked for damage when they are read."""

from __future__ import annotations

import hashlib
import json
import stat
from datetime import datetime
from pathlib import Path
from typing import Any

from attrs import frozen

from dlperf_sdk import folders
from dlperf_sdk.documents.reading import load_document
from dlperf_sdk.errors import DocumentError
from dlperf_sdk.parity.record import ParityRecord, records_from
from dlperf_sdk.private_files import write

VERSION = 2
LARGEST = 64 * 1024 * 1024


@frozen
class CacheEntry:
    """Records of an earlier parity run."""

    records: tuple[ParityRecord, ...]
    made_at: str
    """Time of the run: UTC, ISO 8601."""


def directory() -> Path | None:
    """Return the cache's directory, and create it if it is missing; None if it cannot be created, or is not private.

    It is the folder `parity` in the directory DLPERF_CACHE_DIR or, if that variable is not set, in the folder `dlperf`
    of the user's cache. It is private if it belongs to this user and others cannot write to it: whoever could write
    there could forge evidence.
    """
    return folders.private_cache("parity")


def fetch(key: str) -> CacheEntry | None:
    """Return the entry that is stored under a key; None if there is no entry.

    None also stands for an entry that is damaged, invalid or not private.

    Args:
        key: Key of a parity run, as `key.key_of` returns it: 64 hexadecimal digits.
    """
    folder = directory()
    if folder is None:
        return None
    path = folder / f"{key}.json"
    try:
        if not folders.is_own(path.lstat(), stat.S_ISREG):
            return None
        document = load_document(path, LARGEST)
        if document.get("version") != VERSION or document.get("key") != key:
            return None
        made_at, records = document.get("made_at"), document.get("records")
        is_whole = document.get("checksum") == _checksum(key, records, made_at)
        if not is_whole or not isinstance(made_at, str) or not isinstance(records, list) or not records:
            return None
        datetime.fromisoformat(made_at)
        return CacheEntry(records_from(records), made_at)
    except (OSError, DocumentError, ValueError):
        return None


def store(key: str, records: list[Any], made_at: str) -> None:
    """Store the records of a parity run under its key. If they cannot be stored, nothing is raised.

    Args:
        key: Key of the run, as `key.key_of` returns it: 64 hexadecimal digits.
        records: The run's parity records, one per trainer process, as JSON values.
        made_at: Time of the run: UTC, ISO 8601.
    """
    folder = directory()
    if folder is None:
        return
    document = {"version": VERSION, "key": key, "made_at": made_at, "records": records}
    try:
        document["checksum"] = _checksum(key, records, made_at)
        write(folder / f"{key}.json", json.dumps(document, allow_nan=False).encode())
    except (OSError, ValueError):
        return


def _checksum(key: str, records: Any, made_at: Any) -> str:
    """Return the SHA-256 of an entry, which a damaged one no longer has."""
    text = json.dumps([key, made_at, records], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
