"""Two replicas, in two processes and in one: what they share, and what they do not."""

import json
import os
import socket
import subprocess
import sys

import pytest
from conftest import make_request

from dlperf_sdk import in_process
from dlperf_sdk.worker.digest import digest_of

pytest.importorskip("tensorflow", reason="the worker half needs TensorFlow, which is not in this environment")

CASES = {
    "resnet50": ("resnet50", {"batch_size": 2, "options": {"image_size": 32}}),
    "bert-base": ("bert-base", {}),
    "accumulation": ("bert-base", {"accumulation": 2}),
    "amp-fp16": ("bert-base", {"precision": "amp-fp16"}),
    "xla": ("bert-base", {"compiler": "xla"}),
}


def train(name, whole_node, ports, rank):
    """Three steps on the canonical shards: what the replicas of one process say of them."""
    model, changes = CASES[name]
    options = {"one_process_per_node": whole_node}
    request = make_request(model, framework_options=options, devices_per_node=2, **changes)
    runtime, trainer = in_process.start(request, ports, rank)
    deviation, batch = trainer.deviation(), trainer.canonical_batch()
    losses = [trainer.read_loss(trainer.step(batch).loss) for _ in range(3)]
    here = range(len(trainer.process.replicas))
    return {
        "digests": [digest_of(request.parameters, trainer.parameters(i)) for i in here],
        "losses": [[step[i] for step in losses] for i in here],
        "means": [[float(abs(m).sum()) for _, m in trainer.running_means(i)] for i in here],
        "deviation": deviation,
        "observed": trainer.observed(),
        "distribution": runtime.facts()["distribution"],
    }


def replicas(name, whole_node):
    """What both replicas answered, one after another, and what their processes did."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [str(each.getsockname()[1]) for each in held]
    for each in held:
        each.close()
    ranks = range(1 if whole_node else 2)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    workers = [
        subprocess.Popen(
            [sys.executable, __file__, name, str(int(whole_node)), *ports, str(rank)],
            stdout=subprocess.PIPE,
            env=environment,
        )
        for rank in ranks
    ]
    try:
        said = [worker.communicate(timeout=280)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert [worker.returncode for worker in workers] == [0 for _ in ranks]
    processes = [json.loads(text.splitlines()[-1]) for text in said]
    found = {key: [one for each in processes for one in each[key]] for key in ("digests", "losses", "means")}
    return found, processes


# XLA compiles for the first CPU device of a process only.
@pytest.mark.parametrize(
    ("name", "whole_node"),
    [(name, whole) for name in CASES for whole in (False, True) if (name, whole) != ("xla", True)],
)
def test_two_replicas_are_equal_and_train_as_one_with_both_shards(name, whole_node, make_trainer):
    import tensorflow as tf

    from dlperf_sdk.worker import canonical

    found, processes = replicas(name, whole_node)
    assert len(found["digests"]) == 2 and len(set(found["digests"])) == 1
    wanted = "MirroredStrategy" if whole_node else "CollectiveAllReduceStrategy"
    assert {each["distribution"] for each in processes} == {wanted}
    assert {each["observed"]["strategy"] for each in processes} == {"all_reduce"}
    first, second = found["losses"]
    assert first != second
    if name == "resnet50":
        # Batch norm's statistics are each replica's own.
        assert found["means"][0] != found["means"][1]
        return
    if name == "amp-fp16":
        assert all(each["deviation"] > 2.5e-4 for each in processes)
        return
    trainer = make_trainer("bert-base", batch_size=8)
    inputs, seed = trainer.request.inputs, trainer.request.seed
    shards = [canonical.batch(inputs, 4, shard, seed) for shard in range(2)]
    batch = {key: tf.concat([shard[key] for shard in shards], 0) for key in shards[0]}
    expected = [trainer.read_loss(trainer.step(batch).loss)[0] for _ in range(3)]
    means = [(a + b) / 2 for a, b in zip(first, second, strict=True)]
    assert means == pytest.approx(expected, rel=2e-6)


if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1], sys.argv[2] == "1", sys.argv[3:5], int(sys.argv[5]))), flush=True)
