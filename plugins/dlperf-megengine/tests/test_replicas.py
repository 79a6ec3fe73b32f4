"""Two processes in a ring, with micro-batches: plain ones follow the distributed reference in conformance."""

import pytest
from conftest import make_request

from dlperf_sdk.harness import multiprocess

pytest.importorskip("megengine", reason="the worker half needs MegEngine, which is not in this environment")


def train(ports, rank):
    """What one process says."""
    request = make_request("bert-base", devices_per_node=2, accumulation=2)
    return multiprocess.train_shard(request, ports, rank)


def test_two_replicas_are_equal_and_train_as_one_with_both_shards(make_trainer):
    answers = multiprocess.run_ranks(__file__, ports=2)
    first, second = (answer["replicas"][0] for answer in answers)
    assert first["digest"] == second["digest"]
    assert first["losses"] != second["losses"]
    assert {answer["observed"]["strategy"] for answer in answers} == {"all_reduce"}
    assert {answer["facts"]["transport"] for answer in answers} == {"ring"}
    trainer = make_trainer("bert-base", batch_size=8)
    batch = trainer.place([multiprocess.both_shards(trainer.request)])
    expected = [losses[0] for losses in multiprocess.losses_of(trainer, batch)]
    assert multiprocess.mean_losses([first, second]) == pytest.approx(expected, rel=2e-6)


if __name__ == "__main__":
    multiprocess.run_rank(train)
