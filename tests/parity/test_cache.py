"""Kept evidence: private, and believed only where it is whole and one's own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from parity_samples import record

from dlperf_sdk.parity import cache
from dlperf_sdk.worker.dates import now

KEY = "0" * 64


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "parity"


def entry(**changes: Any) -> bytes:
    """An entry of the cache with other fields, and the checksum that belongs to them unless it is given."""
    document = {"version": cache.VERSION, "key": KEY, "made_at": "2025-01-31T10:15:02", "records": [record()]}
    document |= changes
    checksum = cache._checksum(KEY, document["records"], document["made_at"])
    return json.dumps({"checksum": checksum, **document}).encode()


def test_an_entry_is_believed_as_it_was_written(place: Path) -> None:
    assert cache.directory() == place
    path = place / f"{KEY}.json"
    path.write_bytes(entry())
    path.chmod(0o600)
    assert cache.fetch(KEY) is not None


def test_a_value_that_was_changed_is_not_believed(place: Path) -> None:
    """What is left is a valid document: its records follow their schema."""
    cache.store(KEY, [record()], "2025-01-31T10:15:02+00:00")
    path = place / f"{KEY}.json"
    document = json.loads(path.read_text())
    document["records"][0]["rank"] = 1
    path.write_text(json.dumps(document))
    assert cache.fetch(KEY) is None


def test_cached_entry_is_returned(place: Path) -> None:
    assert cache.fetch(KEY) is None
    cache.store(KEY, [record(0), record(1)], "2025-01-31T10:15:02+00:00")
    actual = cache.fetch(KEY)
    assert actual is not None
    assert actual.made_at == "2025-01-31T10:15:02+00:00"
    assert [one.rank for one in actual.records] == [0, 1]
    assert cache.fetch("1" * 64) is None
    assert [path.name for path in place.iterdir()] == [f"{KEY}.json"]


def test_entry_is_readable_by_its_owner_only(place: Path) -> None:
    cache.store(KEY, [record()], now())
    assert place.stat().st_mode & 0o077 == 0
    assert (place / f"{KEY}.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"version": 1}',
        b"\xff\xfe",
        b"[" * 100_000,
        entry(version=1),
        entry(key="1" * 64),
        entry(made_at="yesterday"),
        entry(records=[]),
        entry(records=[{}]),
        entry(made_at=3, records={"a": 1}),
        entry(checksum="0" * 64),
        entry(checksum=None),
    ],
)
def test_incomplete_entry_is_computed_again(place: Path, content: bytes) -> None:
    assert cache.directory() == place
    (place / f"{KEY}.json").write_bytes(content)
    (place / f"{KEY}.json").chmod(0o600)
    assert cache.fetch(KEY) is None
    cache.store(KEY, [record()], now())
    assert cache.fetch(KEY) is not None


def test_half_a_file_is_not_believed(place: Path) -> None:
    cache.store(KEY, [record()], now())
    path = place / f"{KEY}.json"
    path.write_bytes(path.read_bytes()[:-20])
    assert cache.fetch(KEY) is None


def test_entry_writable_by_others_is_not_used(place: Path, tmp_path: Path) -> None:
    cache.store(KEY, [record()], now())
    path = place / f"{KEY}.json"
    path.chmod(0o666)
    assert cache.fetch(KEY) is None
    path.chmod(0o600)
    elsewhere = tmp_path / "elsewhere.json"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    assert cache.fetch(KEY) is None
    path.unlink()
    os.mkfifo(path)
    assert cache.fetch(KEY) is None


def test_a_folder_that_others_can_write_to_is_not_used(place: Path) -> None:
    cache.store(KEY, [record()], now())
    place.chmod(0o777)
    assert cache.directory() is None
    assert cache.fetch(KEY) is None
    cache.store("1" * 64, [record()], now())
    assert not (place / f"{'1' * 64}.json").exists()


def test_a_cache_that_cannot_be_made_costs_only_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DLPERF_CACHE_DIR", str(tmp_path / "file" / "cache"))
    cache.store(KEY, [record()], now())
    assert cache.fetch(KEY) is None
