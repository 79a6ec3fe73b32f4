"""What a batch job ends with: how its run ended, whatever becomes of the step behind its last event."""

from __future__ import annotations

import json
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
    spec = RunSpec(framework="numpy", model="linear")
    request = make_plan(spec, Registry()).request("case", (sys.executable,), {}, {"source": "synthetic"})
    bundle = build(request, tmp_path / "case.pyz")
    folder = tmp_path / "job"
    folder.mkdir()
    step = (sys.executable, "-c", STEP.format(said=output, code=code))
    words = ("batch", "--folder", str(folder), "--linger", "0", "--", *step)
    done = subprocess.run([sys.executable, str(bundle.path), *words], timeout=60, check=False)
    assert done.returncode == ends
