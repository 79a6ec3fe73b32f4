"""Two processes over gloo: what the replicas share, and what they do not."""

import pytest
from conftest import make_request

from dlperf_sdk.harness import multiprocess

pytest.importorskip("torch", reason="the worker half needs torch, which is not in this environment")

CASES = {
    "resnet50": ("resnet50", {"batch_size": 2, "options": {"image_size": 32}}),
    "bert-base": ("bert-base", {}),
    "accumulation": ("bert-base", {"accumulation": 2}),
    "amp-fp16": ("bert-base", {"precision": "amp-fp16"}),
    "fp16": ("bert-base", {"precision": "fp16"}),
    "independent": ("bert-base", {"strategy": "independent"}),
}


def train(ports, rank):
    """All cases, one after the other: what one process says of each."""
    return {
        name: multiprocess.train_shard(make_request(model, devices_per_node=2, **changes), (port,), rank)
        for (name, (model, changes)), port in zip(CASES.items(), ports, strict=True)
    }


@pytest.fixture(scope="module")
def answers():
    """What the two processes said of all cases."""
    return multiprocess.run_ranks(__file__, ports=len(CASES))


def replicas(answers, case):
    return [answer[case]["replicas"][0] for answer in answers]


def test_resnet50_replicas_are_equal_but_for_batch_norms_statistics(answers):
    first, second = replicas(answers, "resnet50")
    assert first["digest"] == second["digest"]
    assert first["losses"] != second["losses"]
    assert first["means"] != second["means"]
    assert answers[0]["resnet50"]["observed"]["strategy"] == "all_reduce"
    assert answers[0]["resnet50"]["facts"]["transport"] == "gloo"


@pytest.mark.parametrize("case", ["bert-base", "accumulation"])
def test_two_replicas_train_as_one_with_both_shards(answers, make_trainer, case):
    import torch

    trainer = make_trainer("bert-base", batch_size=8)
    shards = multiprocess.both_shards(trainer.request)
    batch = {name: torch.from_numpy(values) for name, values in shards.items()}
    expected = [losses[0] for losses in multiprocess.losses_of(trainer, batch)]

    first, second = replicas(answers, case)
    assert first["digest"] == second["digest"]
    assert multiprocess.mean_losses([first, second]) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("precision", ["amp-fp16", "fp16"])
def test_replicas_in_a_narrow_precision_are_equal(answers, precision):
    first, second = replicas(answers, precision)
    assert first["digest"] == second["digest"]
    assert min(answer[precision]["deviation"] for answer in answers) > 1e-4


def test_independent_replicas_exchange_nothing(answers):
    first, second = replicas(answers, "independent")
    assert first["digest"] != second["digest"]
    assert "strategy" not in answers[0]["independent"]["observed"]


if __name__ == "__main__":
    multiprocess.run_rank(train)
