"""Two processes over gloo: what the replicas share, and what they do not."""

import multiprocessing
import os
import socket
from contextlib import ExitStack

import pytest
from conftest import make_request

from dlperf_sdk import in_process
from dlperf_sdk.worker.digest import digest_of

pytest.importorskip("torch", reason="the worker half needs torch, which is not in this environment")

CASES = {
    "resnet50": ("resnet50", {"batch_size": 2, "options": {"image_size": 32}}),
    "bert-base": ("bert-base", {}),
    "accumulation": ("bert-base", {"accumulation": 2}),
    "amp-fp16": ("bert-base", {"precision": "amp-fp16"}),
    "independent": ("bert-base", {"strategy": "independent"}),
}


def train(request, port, rank):
    """Three steps on the canonical shard: what one replica can say of them."""
    runtime, trainer = in_process.start(request, (port,), rank)
    deviation, batch = trainer.deviation(), trainer.canonical_batch()
    losses = [trainer.read_loss(trainer.step(batch).loss)[0] for _ in range(3)]
    answer = {
        "digest": digest_of(request.parameters, trainer.parameters(0)),
        "losses": losses,
        "deviation": deviation,
        "observed": trainer.observed(),
        "transport": runtime.facts()["transport"],
        "statistics": [value.norm().item() for _, value in trainer.network.named_buffers()],
    }
    runtime.stop()
    return answer


def replica(rank, ports, answers):
    """One worker process: all cases, one after the other."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for (name, (model, changes)), port in zip(CASES.items(), ports, strict=True):
        request = make_request(model, devices_per_node=2, **changes)
        answers.put((name, rank, train(request, port, rank)))


@pytest.fixture(scope="module")
def answers():
    """Case → what its two replicas answered."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in CASES]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        ports = [str(probe.getsockname()[1]) for probe in probes]
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    workers = [context.Process(target=replica, args=(rank, ports, queue)) for rank in range(2)]
    try:
        for worker in workers:
            worker.start()
        found = {name: [None, None] for name in CASES}
        for _ in range(2 * len(CASES)):
            name, rank, answer = queue.get(timeout=120)
            found[name][rank] = answer
        return found
    finally:
        for worker in workers:
            worker.join(10)
            worker.kill()


def mean_losses(replicas):
    return [sum(losses) / 2 for losses in zip(*(answer["losses"] for answer in replicas), strict=True)]


def test_resnet50_replicas_are_equal_but_for_batch_norms_statistics(answers):
    first, second = answers["resnet50"]
    assert first["digest"] == second["digest"]
    assert first["losses"] != second["losses"]
    assert first["statistics"] != second["statistics"]
    assert first["observed"]["strategy"] == "all_reduce"
    assert first["transport"] == "gloo"


@pytest.mark.parametrize("case", ["bert-base", "accumulation"])
def test_two_replicas_train_as_one_with_both_shards(answers, make_trainer, case):
    import torch

    from dlperf_sdk.worker import canonical

    trainer = make_trainer("bert-base", batch_size=8)
    inputs, seed = trainer.request.inputs, trainer.request.seed
    shards = [canonical.batch(inputs, 4, shard, seed) for shard in range(2)]
    batch = {name: torch.cat([torch.from_numpy(shard[name]) for shard in shards]) for name in shards[0]}
    expected = [trainer.read_loss(trainer.step(batch).loss)[0] for _ in range(3)]

    first, second = answers[case]
    assert first["digest"] == second["digest"]
    assert mean_losses(answers[case]) == pytest.approx(expected, rel=1e-6)


def test_mixed_precision_replicas_are_equal(answers):
    first, second = answers["amp-fp16"]
    assert first["digest"] == second["digest"]
    assert min(first["deviation"], second["deviation"]) > 1e-4


def test_independent_replicas_do_not_meet(answers):
    first, second = answers["independent"]
    assert first["digest"] != second["digest"]
    assert "strategy" not in first["observed"]
