"""Resources that really run out: the failure names them, and the command ends as for any failed case."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from dlperf_sdk.worker.exhaustion import describe_exhaustion

pytestmark = pytest.mark.long

CASE = ("numpy", "linear", "--topology", "4n1d", "--batch-size", "8", "--steps", "3", "--repeats", "1")


def measured(
    tmp_path: Path,
    *prefix: str,
    descriptors: int | None = None,
    case: tuple[str, ...] = CASE,
    **variables: str,
) -> dict[str, object]:
    """The failure of a case that another process measures."""

    def limit() -> None:
        if descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    command = (
        *prefix,
        sys.executable,
        "-m",
        "dlperf_sdk",
        "run",
        *case,
        "--json",
        "--output",
        str(tmp_path / "store"),
    )
    environment = {**os.environ, "DLPERF_CACHE_DIR": str(tmp_path / "cache"), **variables}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, preexec_fn=limit, check=False
    )
    assert done.returncode == 4, done.stderr
    failure: dict[str, object] = json.loads(done.stdout)["failure"]
    return failure


def test_a_full_disk_without_a_file_name_names_the_folder_for_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    message = describe_exhaustion(OSError(errno.ENOSPC, "No space left on device"), "The agent")
    assert message is not None
    assert f"set TMPDIR (now {tmp_path}) to another folder" in message


@pytest.mark.parametrize("descriptors", [12, 20])
def test_too_few_descriptors(tmp_path, descriptors):
    failure = measured(tmp_path, descriptors=descriptors)
    assert failure["kind"] == "unavailable"
    assert f"Raise `ulimit -n`, which is {descriptors}" in failure["message"]


def measured_on(size: str, tmp_path: Path, case: tuple[str, ...] = CASE) -> dict[str, object]:
    """The failure of a case whose folder for temporary files is a file system of this size."""
    folder = tmp_path / "full"
    folder.mkdir()
    mount = f"mount -t tmpfs -o size={size} tmpfs {folder}"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("a file system of one's own needs root")
    prefix = ("unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh")
    return measured(tmp_path, *prefix, case=case, TMPDIR=str(folder))


def test_a_full_file_system_for_temporary_files(tmp_path):
    failure = measured_on("128k", tmp_path)
    assert failure["kind"] == "unavailable"
    assert "The disk or quota is full: No space left on device" in failure["message"]
    assert str(tmp_path / "full") in failure["message"]


def test_a_file_system_that_becomes_full_during_the_window(tmp_path):
    """The worker can write neither its record nor its log."""
    case = ("faulty", "linear", "--set", "fault=full-disk", "--steps", "3", "--repeats", "1")
    failure = measured_on("8m", tmp_path, case)
    assert failure["kind"] == "unavailable"
    assert "rank-0 could not write its record: The disk or quota is full" in failure["message"]
    assert failure["rank"] == 0
