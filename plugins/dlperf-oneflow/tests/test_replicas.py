"""Two processes, eager and in one static graph: what the replicas share, and what they do not."""

import functools
import json
import os
import socket
import subprocess
import sys

import pytest
from conftest import make_request

from dlperf_sdk import in_process
from dlperf_sdk.worker.digest import digest_of

CASES = {
    "eager": ("bert-base", {"options": {"clip_norm": 0.5}}),
    "graph": ("bert-base", {"options": {"clip_norm": 0.5}, "compiler": "graph"}),
    "graph-images": ("resnet50", {"batch_size": 2, "options": {"image_size": 32}, "compiler": "graph"}),
}


def uneven(batch, replica):
    """The second replica has fewer predictions in use: a mean over all of them is no longer the replicas' mean."""
    if "masked_weights" in batch and replica == 1:
        batch["masked_weights"][0, 1:] = 0.0
    return batch


def train(name, ports, rank):
    """Three steps on the canonical shard: what one replica can say of them."""
    model, changes = CASES[name]
    request = make_request(model, devices_per_node=2, **changes)
    runtime, trainer = in_process.start(request, ports, rank)
    trainer.deviation()
    batch = trainer._place(uneven(trainer._canonical_host_batch(), rank))
    answer = {
        "losses": [trainer.read_loss(trainer.step(batch).loss)[0] for _ in range(3)],
        "digest": digest_of(request.parameters, trainer.parameters(0)),
        "means": [float(abs(mean).sum()) for _, mean in trainer.running_means(0)],
        "observed": trainer.observed(),
        "transport": runtime.facts()["transport"],
    }
    runtime.stop()
    return answer


@functools.cache
def replicas(name):
    """What both replicas answered."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = str(held.getsockname()[1])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, name, port]
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
def test_two_replicas_are_equal_and_what_is_their_own_stays_so(name):
    pytest.importorskip("oneflow", reason="the worker half needs OneFlow, which is not in this environment")
    first, second = replicas(name)
    assert first["digest"] == second["digest"]
    assert first["losses"] != second["losses"]
    assert first["observed"]["strategy"] == "all_reduce" and first["transport"] == "epoll"
    assert first["observed"]["compiler"] == CASES[name][1].get("compiler", "none")
    if name == "graph-images":
        assert first["means"] != second["means"]


def test_a_graph_of_two_replicas_trains_as_they_do_without_one():
    pytest.importorskip("oneflow", reason="the worker half needs OneFlow, which is not in this environment")
    for eager, graph in zip(replicas("eager"), replicas("graph"), strict=True):
        assert graph["losses"] == pytest.approx(eager["losses"], rel=2e-6)


if __name__ == "__main__":
    print(json.dumps(train(sys.argv[1], sys.argv[2:3], int(sys.argv[3]))), flush=True)
