"""Two replicas, in two processes and in one: what they share, and what they do not."""

import pytest
from conftest import make_request

from dlperf_sdk.harness import multiprocess

pytest.importorskip("jax", reason="the worker half needs JAX, which is not in this environment")

CASES = {
    "bert-base": ("bert-base", {}),
    "accumulation": ("bert-base", {"accumulation": 2}),
    "amp-fp16": ("bert-base", {"precision": "amp-fp16"}),
}
TRANSPORTS = {1: "memory", 2: "gloo"}
"""Processes → how the gradients of two replicas in so many are averaged."""


def train(name, processes, ports, rank):
    """Train in one of so many processes, and return its report."""
    model, changes = CASES[name]
    options = {"one_process_per_node": processes == "1"}
    request = make_request(model, framework_options=options, devices_per_node=2, **changes)
    return multiprocess.train_shard(request, ports, rank)


@pytest.fixture(scope="module")
def as_one(make_trainer):
    """The losses of one replica that has both shards."""
    trainer = make_trainer("bert-base", batch_size=8)
    batch = trainer.place([multiprocess.both_shards(trainer.request)])
    return [losses[0] for losses in multiprocess.losses_of(trainer, batch)]


# Two processes follow the distributed reference in conformance, with both models and in every precision, but for
# micro-batches.
@pytest.mark.parametrize(("name", "processes"), [*((name, 1) for name in CASES), ("accumulation", 2)])
def test_two_replicas_are_equal_and_train_as_one_with_both_shards(name, processes, as_one):
    answers = multiprocess.run_ranks(__file__, name, str(processes), ports=2, processes=processes)
    first, second = (replica for answer in answers for replica in answer["replicas"])
    assert first["digest"] == second["digest"]
    assert first["losses"] != second["losses"]
    assert {answer["facts"]["transport"] for answer in answers} == {TRANSPORTS[processes]}
    assert {answer["observed"]["strategy"] for answer in answers} == {"all_reduce"}
    if name == "amp-fp16":
        assert all(answer["deviation"] > 2.5e-4 for answer in answers)
    else:
        assert multiprocess.mean_losses([first, second]) == pytest.approx(as_one, rel=2e-6)


if __name__ == "__main__":
    multiprocess.run_rank(train)
