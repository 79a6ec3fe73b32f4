"""How a worker starts: with little to import, since many do at once; and what it says where it cannot."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dlperf_sdk import RunSpec
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.worker import trainer
from dlperf_sdk.worker.data import DataError
from dlperf_sdk.worker.interface import Runtime
from dlperf_sdk.worker.processes import Cluster, Node, one_per_device
from dlperf_sdk.worker.unsupported import Unsupported

SOURCE = Path(trainer.__file__).parent.parent.parent
ERRORS = {
    "out-of-memory": MemoryError("4 GiB"),
    "unsupported": Unsupported("no such precision"),
    "unavailable": DataError("the index has changed"),
    "crashed": ValueError("a shape"),
}


def test_a_worker_imports_nothing_that_it_may_not_need():
    script = (
        "import json, sys\nbefore = set(sys.modules)\nsys.path.insert(0, sys.argv[1])\n"
        "import dlperf_sdk.worker.main, dlperf_sdk.worker.trainer\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))\n"
    )
    answer = subprocess.run(
        [sys.executable, "-I", "-c", script, str(SOURCE)], capture_output=True, text=True, check=True
    )
    actual = set(json.loads(answer.stdout))
    assert "dlperf_sdk.worker.trainer" in actual
    standard = {
        "argparse",
        "asyncio",
        "dataclasses",
        "logging",
        "socket",
        "subprocess",
        "tempfile",
        "zipfile",
    }
    ours = {f"dlperf_sdk.worker.{name}" for name in ("agent", "data", "parity", "schedule", "tracing")}
    assert not actual & (standard | ours | {"numpy"})


class Refusing(Runtime):
    """Fails to start, as the request's name says."""

    def start(self) -> None:
        raise ERRORS[self.request.id]


@pytest.mark.parametrize("kind", ERRORS)
def test_worker_reports_the_kind_of_failure(kind, tmp_path, capsys):
    spec = RunSpec(framework="numpy", model="linear", batch_size=4, warmup=0, steps=1, repeats=1)
    request = make_plan(spec, Registry()).request(kind, (sys.executable,), {}, {"source": "synthetic"})
    request = request._replace(runtime=f"{__name__}:Refusing")
    cluster = Cluster((Node("127.0.0.1", ("1", "2"), ("cpu:0",)),), "cpu", "all_reduce")
    code = trainer.run(request, cluster, one_per_device(cluster)[0], 1, str(tmp_path), lambda: None)
    record = json.loads((tmp_path / "record.json").read_text())
    failure = record["failure"]
    assert (code, record["status"]) == (1, "failed")
    assert (failure["kind"], failure["phase"], failure["message"]) == (kind, "start", str(ERRORS[kind]))
    assert type(ERRORS[kind]).__name__ in capsys.readouterr().err
