"""The trainers of the models, in the frameworks' managed environments: parity, and a valid result."""

import pytest

from dlperf_sdk import run, verify

TRAINED_BY = [
    pytest.param("torch", marks=pytest.mark.framework),
    pytest.param("tensorflow", marks=pytest.mark.frameworks),
    pytest.param("tensorflow1", marks=pytest.mark.frameworks),
]
SMALL = {
    "resnet50-v1": {"image_size": 40, "num_classes": 10},
    # With the default first shift the loss of a batch of two need not fall in a few steps.
    "inception-v3": {"image_size": 107, "num_classes": 10, "first_shift": 1.0, "learning_rate": 0.0003},
}


@pytest.mark.parametrize("framework", TRAINED_BY)
@pytest.mark.parametrize("model", SMALL)
def test_one_replica_follows_the_reference(framework, model):
    (verification,) = verify([framework], model)
    (row,) = verification.rows
    assert row.outcome == "pass", row


@pytest.mark.parametrize("framework", TRAINED_BY)
def test_the_auxiliary_head_follows_the_reference(framework):
    (verification,) = verify([framework], "inception-v3", case="auxiliary")
    (row,) = verification.rows
    assert row.outcome == "pass", row


@pytest.mark.parametrize("framework", TRAINED_BY)
@pytest.mark.parametrize("model", SMALL)
def test_two_replicas_give_a_valid_result(framework, model):
    """Parity with the distributed reference is one of the verdicts."""
    short = {"batch_size": 2, "warmup": 1, "steps": 3, "repeats": 1, "store": None}
    result = run(framework, model, topology="1n2d", options=SMALL[model], **short)
    assert result.status == "ok", result.failure
    outcomes = {verdict.name: verdict.outcome for verdict in result.verdicts if verdict.kind == "integrity"}
    assert set(outcomes.values()) == {"pass"}, outcomes
    assert result.metric("throughput").unit == "img/s"
