"""Two processes over gloo: what the replicas share, and what they do not."""

import json
import os
import socket
import subprocess
import sys

import pytest
from conftest import make_request

from dlperf_sdk import in_process
from dlperf_sdk.worker.digest import digest_of

pytest.importorskip("paddle", reason="the worker half needs Paddle, which is not in this environment")

CASES = {
    "resnet50": ("resnet50", {"batch_size": 2, "options": {"image_size": 32}}),
    "bert-base": ("bert-base", {}),
    "accumulation": ("bert-base", {"accumulation": 2}),
    "graph": ("bert-base", {"compiler": "graph"}),
}


def train(name, ports, rank):
    """Three steps on the canonical shard: what one replica can say of them."""
    model, changes = CASES[name]
    request = make_request(model, devices_per_node=2, **changes)
    runtime, trainer = in_process.start(request, ports, rank)
    trainer.deviation()
    batch = trainer.canonical_batch()
    answer = {
        "losses": [trainer.read_loss(trainer.step(batch).loss)[0] for _ in range(3)],
        "digest": digest_of(request.parameters, trainer.parameters(0)),
        "means": [float(abs(mean).sum()) for _, mean in trainer.running_means(0)],
        "observed": trainer.observed(),
        "transport": runtime.facts()["transport"],
    }
    runtime.stop()
    return answer


def replicas(name):
    """What both replicas answered."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    ports = [str(each.getsockname()[1]) for each in held]
    for each in held:
        each.close()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, name, *ports]
    workers = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, env=environment) for rank in range(2)
    ]
    try:
        said = [worker.communicate(timeout=280)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert [worker.returncode for worker in workers] == [0, 0]
    return [json.loads(text.splitlines()[-1]) for text in said]


@pytest.mark.parametrize("name", CASES)
def test_two_replicas_are_equal_and_train_as_one_with_both_shards(name, make_trainer):
    import numpy as np
    import paddle

    from dlperf_sdk.worker import canonical

    first, second = replicas(name)
    assert first["digest"] == second["digest"]
    assert first["losses"] != second["losses"]
    assert first["observed"]["strategy"] == "all_reduce" and first["transport"] == "gloo"
    if name == "resnet50":
        # Batch norm's statistics are each replica's own.
        assert first["means"] != second["means"]
        return
    trainer = make_trainer("bert-base", batch_size=8)
    inputs, seed = trainer.request.inputs, trainer.request.seed
    shards = [canonical.batch(inputs, 4, shard, seed) for shard in range(2)]
    batch = {key: paddle.to_tensor(np.concatenate([shard[key] for shard in shards])) for key in shards[0]}
    expected = [trainer.read_loss(trainer.step(batch).loss)[0] for _ in range(3)]
    means = [(a + b) / 2 for a, b in zip(first["losses"], second["losses"], strict=True)]
    assert means == pytest.approx(expected, rel=2e-6)


if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1], sys.argv[2:5], int(sys.argv[5]))), flush=True)
