"""Two processes over gloo, with micro-batches: plain ones follow the distributed reference in conformance."""

import pytest
from conftest import make_request

from dlperf_sdk.harness import multiprocess

pytest.importorskip("paddle", reason="the worker half needs Paddle, which is not in this environment")


def train(ports, rank):
    """What one process says."""
    request = make_request("bert-base", devices_per_node=2, accumulation=2)
    return multiprocess.train_shard(request, ports, rank)


def test_two_replicas_are_equal_and_train_as_one_with_both_shards(make_trainer):
    import paddle

    answers = multiprocess.run_ranks(__file__, ports=3)
    first, second = (answer["replicas"][0] for answer in answers)
    assert first["digest"] == second["digest"]
    assert first["losses"] != second["losses"]
    assert answers[0]["observed"]["strategy"] == "all_reduce"
    assert answers[0]["facts"]["transport"] == "gloo"
    trainer = make_trainer("bert-base", batch_size=8)
    shards = multiprocess.both_shards(trainer.request)
    batch = {key: paddle.to_tensor(values) for key, values in shards.items()}
    expected = [losses[0] for losses in multiprocess.losses_of(trainer, batch)]
    assert multiprocess.mean_losses([first, second]) == pytest.approx(expected, rel=2e-6)


if __name__ == "__main__":
    multiprocess.run_rank(train)
