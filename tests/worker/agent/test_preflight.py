"""Checks of a node before anything is started on it."""

from __future__ import annotations

import sys
from pathlib import Path

from dlperf_sdk.worker.agent.preflight import check_node


def test_the_interpreter_is_looked_for_on_the_path_of_the_workers(tmp_path, monkeypatch):
    """Workers may get another PATH with `--env`, and they are started with it."""
    (tmp_path / "special-python").symlink_to(sys.executable)
    assert check_node(["special-python"], str(tmp_path), [], str(tmp_path)) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = check_node(["special-python"], str(tmp_path), [], str(Path(sys.executable).parent))
    assert missing is not None
    assert missing["kind"] == "environment"
    assert "lacks special-python" in missing["message"]
