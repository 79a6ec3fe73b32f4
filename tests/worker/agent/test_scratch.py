"""Scratch directories: private, held, and swept when nobody holds them."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from dlperf_sdk.worker.agent import scratch

# -- what is left behind is swept, and nothing else


def left_behind(folder, name, lock=True):
    path = folder / name
    (path / "bundle").mkdir(parents=True)
    if lock:
        (path / "lock").touch()
    return path


def test_only_unused_folders_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch.tempfile, "gettempdir", lambda: str(tmp_path))
    dead, alive = left_behind(tmp_path, "dlperf-aaaaaaaa"), left_behind(tmp_path, "dlperf-bbbbbbbb")
    others = [
        left_behind(tmp_path, name) for name in ("dlperf-results", "dlperf-cccccccc2", "other-dddddddd")
    ]
    mine = left_behind(tmp_path, "dlperf-eeeeeeee", lock=False)
    (tmp_path / "dlperf-ffffffff").symlink_to(others[0])
    with (alive / "lock").open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        scratch.sweep()
    assert not dead.exists()
    assert all(path.exists() for path in (alive, mine, *others, tmp_path / "dlperf-ffffffff"))


def test_folder_of_a_killed_start_is_removed_after_an_hour(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch.tempfile, "gettempdir", lambda: str(tmp_path))
    path = tmp_path / "dlperf-aaaaaaaa"
    path.mkdir()
    (path / "bundle.pyz").touch()
    scratch.sweep()
    assert path.exists()
    os.utime(path, (time.time() - 4000,) * 2)
    scratch.sweep()
    assert not path.exists()


def test_scratch_directory_is_private_and_locked(tmp_path, monkeypatch):
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))
    with scratch.scratch() as path:
        assert Path(path).stat().st_mode & 0o777 == 0o700
        assert (Path(path) / "lock").stat().st_mode & 0o777 == 0o600
        scratch.sweep()
        assert Path(path).is_dir()
    assert not Path(path).exists()
