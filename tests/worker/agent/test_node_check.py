"""An agent's introduction: a node that cannot run the case says why."""

from __future__ import annotations

from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker.agent.node_check import introduce


def test_a_damaged_bundle_makes_a_node_unfit(tmp_path):
    """Without an answer the coordinator would wait for the node until the deadline."""
    bundle = tmp_path / "bundle.pyz"
    bundle.write_bytes(b"PK\3\4 damaged")
    plan = make_plan(RunSpec(framework="numpy", model="linear", repeats=1), Registry())
    request = plan.request("damaged", ("python3",), {}, {"source": "synthetic"})
    hello = introduce(request, str(bundle), str(tmp_path), "127.0.0.1").hello
    assert hello["unfit"]["kind"] == "unavailable"
    assert "not a zip file" in hello["unfit"]["message"]
