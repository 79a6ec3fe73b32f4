"""All frameworks of this repository from one interpreter that holds none of them."""

from __future__ import annotations

import importlib.util

import pytest
from conftest import ROOT

from dlperf_sdk import run

pytestmark = pytest.mark.frameworks

FRAMEWORKS = sorted(path.parent.name.partition("-")[2] for path in ROOT.glob("plugins/*/pyproject.toml"))
SMALL = {
    "resnet50": {"batch_size": 2, "options": {"image_size": 64, "num_classes": 10}},
    "bert-base": {
        "batch_size": 2,
        "options": {"sequence_length": 32, "layers": 2, "predictions_per_sequence": 4},
    },
}
"""Both models, small enough for a laptop; all layers of ResNet-50, two of BERT's."""


def test_no_framework_is_in_this_interpreter():
    packages = {"tensorflow", "mxnet", "oneflow", "paddle"}
    assert not [name for name in packages if importlib.util.find_spec(name)]


@pytest.mark.parametrize("model", SMALL)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_true_number_of_every_framework(framework, model):
    result = run(framework, model, topology="1n2d", warmup=1, steps=3, repeats=1, store=None, **SMALL[model])
    assert result.status == "ok", result.failure
    untrue = [v for v in result.verdicts if v.kind == "integrity" and v.outcome != "pass"]
    assert not untrue
    assert result.metric("throughput").value > 0
    replicas = [replica.index for record in result.repeats[0].records for replica in record.replicas]
    assert sorted(replicas) == [0, 1]
