"""Resources that really run out: the failure names them, and the command ends as for any failed case."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

CASE = ("numpy", "linear", "--topology", "4n1d", "--batch-size", "8", "--steps", "3", "--repeats", "1")


def measured(
    tmp_path: Path, *prefix: str, descriptors: int | None = None, **variables: str
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
        *CASE,
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


@pytest.mark.parametrize("descriptors", [12, 20])
def test_too_few_descriptors(tmp_path, descriptors):
    failure = measured(tmp_path, descriptors=descriptors)
    assert failure["kind"] == "unavailable"
    assert f"Raise `ulimit -n`, which is {descriptors}" in failure["message"]


def test_a_full_file_system_for_temporary_files(tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    mount = f"mount -t tmpfs -o size=128k tmpfs {full}"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("a file system of one's own needs root")
    failure = measured(tmp_path, "unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh", TMPDIR=str(full))
    assert failure["kind"] == "unavailable"
    assert "The disk or quota is full: No space left on device" in failure["message"]
