"""A root file system made on the spot, and what podman needs to run it here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def make(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One without anything in it, below `folder`; skips the test where podman does not run."""
    if not shutil.which("podman") or os.geteuid() != 0:
        pytest.skip("podman is not installed, or this is not root")
    settings = folder / "containers.conf"
    runtime = 'runtime = "runc"\n' if shutil.which("runc") else ""
    settings.write_text(
        f'[engine]\n{runtime}[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]\n'
    )
    monkeypatch.setenv("CONTAINERS_CONF", str(settings))
    root = folder / "rootfs"
    for name in ("usr", "tmp", "etc", "proc", "sys", "dev", "run", "root"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (root / name).symlink_to(f"usr/{name}")
    probe = ["podman", "run", "--rm", "--volume=/usr:/usr:ro", "--rootfs", str(root), "true"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"podman does not run here: {done.stderr.strip()[-200:]}")
    return root


def mounts() -> str:
    """The folders of this interpreter, as `container_mounts` takes them."""
    prefixes = {str(Path(sys.prefix)), str(Path(sys.base_prefix))}
    return ",".join(["/usr", *sorted(prefixes - {"/usr"})])
