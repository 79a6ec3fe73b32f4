"""The trainers of the models, in the frameworks' managed environments: parity, and a valid result."""

import pytest
from dlperf_models_2017.inception_v3 import InceptionV3
from dlperf_models_2017.resnet50_v1 import ResNet50V1

from dlperf_sdk import run, verify

SMALL = {
    "resnet50-v1": {"image_size": 40, "num_classes": 10},
    # With the default first shift the loss of a batch of two need not fall in a few steps.
    "inception-v3": {"image_size": 107, "num_classes": 10, "first_shift": 1.0, "learning_rate": 0.0003},
}


def marked(framework, *values):
    mark = pytest.mark.framework if framework == "torch" else pytest.mark.frameworks
    return pytest.param(framework, *values, marks=mark)


TRAINED = [
    marked(framework, model)
    for model, declared in (("resnet50-v1", ResNet50V1), ("inception-v3", InceptionV3))
    for framework in declared.trainers
]


@pytest.mark.parametrize(("framework", "model"), TRAINED)
def test_one_replica_follows_the_reference(framework, model):
    (verification,) = verify([framework], model)
    (row,) = verification.rows
    assert row.outcome == "pass", row


@pytest.mark.parametrize("framework", [*map(marked, InceptionV3.trainers)])
def test_the_auxiliary_head_follows_the_reference(framework):
    (verification,) = verify([framework], "inception-v3", case="auxiliary")
    (row,) = verification.rows
    assert row.outcome == "pass", row


@pytest.mark.parametrize(("framework", "model"), TRAINED)
def test_two_replicas_give_a_valid_result(framework, model):
    """Parity with the distributed reference is one of the verdicts."""
    short = {"batch_size": 2, "warmup": 1, "steps": 3, "repeats": 1, "store": None}
    result = run(framework, model, topology="1n2d", options=SMALL[model], **short)
    assert result.status == "ok", result.failure
    outcomes = {verdict.name: verdict.outcome for verdict in result.verdicts if verdict.kind == "integrity"}
    assert set(outcomes.values()) == {"pass"}, outcomes
    assert result.metric("throughput").unit == "img/s"
