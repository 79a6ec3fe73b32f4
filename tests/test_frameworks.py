"""All frameworks of this repository from one interpreter that holds none of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from dlperf_sdk import run, verify
from dlperf_sdk.execution.verification import exit_code
from dlperf_sdk.harness.in_process import SMALL
from dlperf_sdk.registry.plugins import Registry

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.frameworks

OPTIONS = {
    "bert-base": {**SMALL["bert-base"], "dropout": 0.1},
    "resnet50": SMALL["resnet50"],
}  # dropout as users have it
FRAMEWORKS = sorted(
    path.parent.name.partition("-")[2]
    for path in ROOT.glob("plugins/*/pyproject.toml")
    if "dlperf_sdk.frameworks" in path.read_text(encoding="utf-8")
)


def test_no_framework_is_in_this_interpreter():
    packages = {"jax", "megengine", "mindspore", "tensorflow", "mxnet", "oneflow", "paddle"}
    assert not [name for name in packages if importlib.util.find_spec(name)]


def require_valid_result(framework, topology, model="bert-base", **fields):
    """Run a model on two replicas; all verdicts must pass, parity with the distributed reference among them."""
    result = run(
        framework,
        model,
        topology=topology,
        batch_size=2,
        warmup=1,
        steps=3,
        repeats=1,
        store=None,
        options=OPTIONS[model],
        **fields,
    )
    assert result.status == "ok", result.failure
    failed = [v for v in result.verdicts if v.kind == "integrity" and v.outcome != "pass"]
    if framework in ("mindspore", "tensorflow"):
        # Their random operations cannot be set back: the masks differ, and two samples decide nothing.
        failed = [v for v in failed if not v.detail.startswith("Dropout draws other masks")]
    assert not failed
    assert result.metric("throughput").value > 0
    replicas = [replica.index for record in result.repeats[0].records for replica in record.replicas]
    assert sorted(replicas) == [0, 1]
    return result


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_framework_gives_a_valid_result(framework):
    """On two nodes, where collectives allow it; conformance has all models on two devices of one node.

    MXNet's way between nodes are its servers, below. tensorpack has none without Horovod.
    """
    model = "bert-base" if "bert-base" in Registry().framework(framework).trainers else "resnet50"
    require_valid_result(framework, "1n2d" if framework in ("mxnet", "tensorpack") else "2n1d", model)


def test_mxnet_servers_sum_the_gradients_of_two_workers():
    """One process owns the devices of a node, so only over two nodes do the servers have anything to sum."""
    result = require_valid_result("mxnet", "2n1d", strategy="parameter_server")
    assert [record.rank for record in result.repeats[0].records] == [0, 1]


@pytest.mark.parametrize(
    ("framework", "compiler"),
    [
        ("tensorflow", "xla"),
        ("tensorflow1", "xla"),
        ("mxnet", "graph"),
        ("oneflow", "graph"),
        ("paddle", "graph"),
    ],
)
def test_compiled_training_follows_the_reference(framework, compiler):
    """With all cores, and at the size of `small`: conformance compiles a smaller network, for one thread."""
    (actual,) = verify([framework], "bert-base", compiler=compiler)
    (row,) = actual.rows
    assert row.outcome == "pass", row


def test_all_of_them_in_one_table():
    (actual,) = verify(FRAMEWORKS, "resnet50")
    assert [(row.framework, row.parity.outcome) for row in actual.rows] == [
        (name, "pass") for name in FRAMEWORKS
    ]
    assert exit_code([actual]) == 0
