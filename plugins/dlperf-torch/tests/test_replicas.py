"""Two processes over gloo: what the replicas share, and what they do not."""

import multiprocessing
import os
import socket

import pytest
from conftest import make_cluster, make_request

from dlperf_sdk.worker.request import resolve

pytest.importorskip("torch", reason="the worker half needs torch, which is not in this environment")


def replica(rank, port, model, changes, answers):
    """One worker process: three steps on its canonical shard."""
    os.environ["OMP_NUM_THREADS"] = "1"
    request = make_request(model, devices_per_node=2, **changes)
    cluster = make_cluster(request, port)
    process = resolve(request.processes)(cluster)[rank]
    os.environ.update(process.variables)
    runtime = resolve(request.runtime)(request, cluster, process)
    runtime.start()
    trainer = resolve(request.trainer)(runtime, request, process)
    deviation, batch = trainer.deviation(), trainer.canonical_batch()
    losses = [trainer.read_loss(trainer.step(batch).loss)[0] for _ in range(3)]
    statistics = [value.norm().item() for _, value in trainer.network.named_buffers()]
    answers.put((rank, trainer.digests()[0], losses, deviation, trainer.observed(), statistics))
    runtime.stop()


def two(model, **changes):
    """What both replicas answered, in order."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    workers = [
        context.Process(target=replica, args=(rank, port, model, changes, answers)) for rank in range(2)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        if worker.exitcode is None:
            worker.kill()
    assert [worker.exitcode for worker in workers] == [0, 0]
    return sorted(answers.get() for _ in workers)


def test_resnet50_replicas_are_equal_but_for_batch_norms_statistics():
    (_, first, losses, _, observed, statistics), (_, second, others, _, _, other_statistics) = two(
        "resnet50", batch_size=2, options={"image_size": 32}
    )
    assert first == second
    assert losses != others
    assert statistics != other_statistics
    assert (observed["strategy"], observed["transport"]) == ("all_reduce", "gloo")


def test_bert_base_replicas_train_on_both_shards():
    (_, first, losses, *_), (_, second, others, *_) = two("bert-base")
    assert first == second
    # Two replicas with a shard each take the steps of one that has both: equal mean losses at every step.
    mean = [(a + b) / 2 for a, b in zip(losses, others, strict=True)]
    assert mean == pytest.approx(both_shards(3), rel=1e-6)


def both_shards(steps):
    """The losses of one replica whose batch is both canonical shards."""
    import torch

    from dlperf_sdk.worker import canonical

    request = make_request("bert-base", batch_size=8)
    cluster = make_cluster(request)
    process = resolve(request.processes)(cluster)[0]
    runtime = resolve(request.runtime)(request, cluster, process)
    runtime.start()
    trainer = resolve(request.trainer)(runtime, request, process)
    shards = [canonical.batch(request.inputs, 4, shard, request.seed) for shard in range(2)]
    batch = {name: torch.cat([torch.from_numpy(shard[name]) for shard in shards]) for name in shards[0]}
    return [trainer.read_loss(trainer.step(batch).loss)[0] for _ in range(steps)]


def test_accumulating_replicas_meet_once_per_step():
    (_, first, losses, *_), (_, second, others, *_) = two("bert-base", accumulation=2)
    assert first == second
    mean = [(a + b) / 2 for a, b in zip(losses, others, strict=True)]
    assert mean == pytest.approx(both_shards(3), rel=1e-6)


def test_mixed_precision_replicas_are_equal():
    (_, first, _, deviation, *_), (_, second, _, other, *_) = two("bert-base", precision="amp-fp16")
    assert first == second
    assert min(deviation, other) > 1e-4


def test_independent_replicas_do_not_meet():
    (_, first, _, _, observed, _), (_, second, *_) = two("bert-base", strategy="independent")
    assert first != second
    assert "strategy" not in observed
