"""How a batch job ends: with the outcome of its run, and without files of its agents on its node."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from dlperf_sdk import RunSpec
from dlperf_sdk.planning.bundle import build
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry

GOOD = {"event": "ended", "status": "ok", "failure": None}
BAD = {
    **GOOD,
    "status": "lost-node",
    "failure": {"kind": "lost-node", "message": "The agent of node 1 has gone."},
}
STEP = "import sys; print({said!r}); sys.exit({code})"


@pytest.mark.parametrize(
    ("output", "code", "ends"),
    [
        pytest.param(json.dumps(GOOD), 0, 0, id="a-good-end"),
        pytest.param(json.dumps(GOOD), 1, 0, id="a-good-end-and-an-agent-that-the-tether-reached-first"),
        pytest.param(json.dumps(BAD), 0, 1, id="a-failure"),
        pytest.param('{"event": "ended", ', 0, 1, id="a-last-event-that-cannot-be-read"),
        pytest.param(json.dumps({**GOOD, "event": "heartbeat"}), 0, 0, id="no-last-event"),
        pytest.param(
            json.dumps({**GOOD, "event": "heartbeat"}), 3, 3, id="no-last-event-and-a-step-that-failed"
        ),
    ],
)
def test_a_job_ends_as_its_run_has_ended(tmp_path, output, code, ends):
    assert run_job(tmp_path, STEP.format(said=output, code=code)).returncode == ends


def test_a_job_removes_the_folder_of_an_agent_that_was_killed(tmp_path):
    """Slurm kills the agents that it has started if it fails to start another."""
    folder = tmp_path / "dlperf-ab12cd34"
    step = f"import os; os.mkdir({str(folder)!r}); open({str(folder / 'lock')!r}, 'w').close()"
    assert run_job(tmp_path, step).returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["case.pyz"]


def run_job(tmp_path, program):
    """Run a batch job whose step is a Python program."""
    spec = RunSpec(framework="numpy", model="linear")
    request = make_plan(spec, Registry()).request("case", (sys.executable,), {}, {"source": "synthetic"})
    bundle = build(request, tmp_path / "case.pyz")
    folder = tmp_path / "job"
    folder.mkdir()
    words = ("batch", "--folder", str(folder), "--linger", "0", "--", sys.executable, "-c", program)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, str(bundle.path), *words]
    return subprocess.run(command, timeout=60, check=False, env=environment)
