"""The driver's output, without a cluster."""

import json
import subprocess
import sys
from pathlib import Path

import dlperf_ray

PROGRAM = """
import streams
output = streams.Output()
for node, line in ((0, b'Welcome'), (1, b'Welcome'), (1, b'{"event": "ended", "failure": null}'), (1, b'[]'),
                   (1, b'{"event": "attempt-ended"}'),
                   (2, b'{"event": "ended", "failure": {"message": "No.", "node": 0}}')):
    output.add(node, line + b'\\n')
"""


def test_only_node_0_prints_events():
    driver = Path(dlperf_ray.__file__).parent / "driver"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=driver, capture_output=True, text=True, check=True
    )
    first, last = done.stdout.splitlines()
    assert first == "Welcome"
    failure = json.loads(last)["failure"]
    assert (failure["kind"], failure["message"], failure["node"]) == ("unavailable", "No.", 2)
