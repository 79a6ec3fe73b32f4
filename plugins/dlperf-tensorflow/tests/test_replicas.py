"""Two replicas, in two processes and in one: what they share, and what they do not."""

import pytest
from conftest import make_request

from dlperf_sdk.harness import multiprocess

pytest.importorskip("tensorflow", reason="the worker half needs TensorFlow, which is not in this environment")

CASES = {
    "resnet50": ("resnet50", {"batch_size": 2, "options": {"image_size": 32}}),
    "bert-base": ("bert-base", {}),
    "accumulation": ("bert-base", {"accumulation": 2}),
    "amp-fp16": ("bert-base", {"precision": "amp-fp16"}),
    "fp16": ("bert-base", {"precision": "fp16"}),
}
STRATEGIES = {1: "MirroredStrategy", 2: "CollectiveAllReduceStrategy"}
"""Processes → what TensorFlow calls the strategy of two replicas in so many."""


def train(name, processes, ports, rank):
    """What one of so many processes says of a case."""
    model, changes = CASES[name]
    options = {"one_process_per_node": processes == "1"}
    request = make_request(model, framework_options=options, devices_per_node=2, **changes)
    return multiprocess.train_shard(request, ports, rank)


@pytest.fixture(scope="module")
def as_one(make_trainer):
    """The losses of one replica that has both shards."""
    import tensorflow as tf

    trainer = make_trainer("bert-base", batch_size=8)
    batch = {key: tf.constant(values) for key, values in multiprocess.both_shards(trainer.request).items()}
    return [losses[0] for losses in multiprocess.losses_of(trainer, batch)]


# Two processes follow the distributed reference in conformance, in every precision and compiled, but for micro-batches.
@pytest.mark.parametrize(("name", "processes"), [*((name, 1) for name in CASES), ("accumulation", 2)])
def test_two_replicas_are_equal_and_train_as_one_with_both_shards(name, processes, as_one):
    answers = multiprocess.run_ranks(__file__, name, str(processes), ports=2, processes=processes)
    first, second = (replica for answer in answers for replica in answer["replicas"])
    assert first["digest"] == second["digest"]
    assert first["losses"] != second["losses"]
    assert {answer["facts"]["distribution"] for answer in answers} == {STRATEGIES[processes]}
    assert {answer["observed"]["strategy"] for answer in answers} == {"all_reduce"}
    if name == "resnet50":
        # Batch norm's statistics are each replica's own.
        assert first["means"] != second["means"]
        return
    if name in ("amp-fp16", "fp16"):
        assert all(answer["deviation"] > 2.5e-4 for answer in answers)
        return
    assert multiprocess.mean_losses([first, second]) == pytest.approx(as_one, rel=2e-6)


if __name__ == "__main__":
    multiprocess.run_rank(train)
