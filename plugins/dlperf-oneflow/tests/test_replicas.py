"""Two processes, eager and in one static graph: what conformance does not ask of them. ResNet-50 it asks both ways."""

import functools

import pytest
from conftest import make_request

from dlperf_sdk.harness import multiprocess

CASES = {
    "eager": ("bert-base", {"options": {"clip_norm": 0.5}}),
    "graph": ("bert-base", {"options": {"clip_norm": 0.5}, "compiler": "graph"}),
    "whole": ("bert-base", {"options": {"clip_norm": 0.5}}),
    "parts": ("bert-base", {"options": {"clip_norm": 0.5}, "accumulation": 2}),
}


def train(name, ports, rank):
    """What one process says of a case."""
    model, changes = CASES[name]
    request = make_request(model, devices_per_node=2, **changes)
    if name in ("whole", "parts"):
        return multiprocess.train_shard(request, ports, rank)
    return multiprocess.train_shard(request, ports, rank, lambda trainer: uneven(trainer, rank))


def uneven(trainer, rank):
    """The canonical batch, with fewer predictions in use on the second replica: a mean over all of them is no longer
    the replicas' mean."""
    (batch,) = trainer.host_batches()
    if "masked_weights" in batch and rank == 1:
        batch["masked_weights"][0, 1:] = 0.0
    return trainer.place([batch])


@functools.cache
def answers(name):
    """What both processes said."""
    return multiprocess.run_ranks(__file__, name, ports=1)


@pytest.mark.parametrize("name", CASES)
def test_two_replicas_have_equal_parameters_and_separate_statistics(name):
    pytest.importorskip("oneflow", reason="the worker half needs OneFlow, which is not in this environment")
    first, second = (output["replicas"][0] for output in answers(name))
    assert first["digest"] == second["digest"]
    assert first["losses"] != second["losses"]
    observed, facts = answers(name)[0]["observed"], answers(name)[0]["facts"]
    assert observed["strategy"] == "all_reduce" and facts["transport"] == "epoll"
    assert observed["compiler"] == CASES[name][1].get("compiler", "none")


def test_a_graph_of_two_replicas_trains_as_they_do_without_one():
    pytest.importorskip("oneflow", reason="the worker half needs OneFlow, which is not in this environment")
    for eager, graph in zip(answers("eager"), answers("graph"), strict=True):
        expected = eager["replicas"][0]["losses"]
        assert graph["replicas"][0]["losses"] == pytest.approx(expected, rel=2e-6)


def test_accumulated_gradients_are_exchanged_once():
    pytest.importorskip("oneflow", reason="the worker half needs OneFlow, which is not in this environment")
    for whole, parts in zip(answers("whole"), answers("parts"), strict=True):
        expected = whole["replicas"][0]["losses"]
        assert parts["replicas"][0]["losses"] == pytest.approx(expected, rel=2e-6)


if __name__ == "__main__":
    multiprocess.run_rank(train)
