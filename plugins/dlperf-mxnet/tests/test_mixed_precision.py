"""bfloat16 by MXNet's own `amp`, each case in a process of its own: it replaces the operators for good."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import make_request

from dlperf_sdk.harness import multiprocess

CASES = {
    "images": ("resnet50", {}),
    "images-graph": ("resnet50", {"compiler": "graph"}),
    "images-pair": ("resnet50", {"devices_per_node": 2}),
}


def train(name, ports, rank):
    """What the process says of a case."""
    model, changes = CASES[name]
    options = {"image_size": 64}  # the size for which the figures below were seen
    return multiprocess.train_shard(
        make_request(model, options, precision="amp-bf16", **changes), ports, rank
    )


@functools.cache
def answer(name):
    """Return the answer of a case's worker.

    Skipped on a processor without AVX-512: there the trainer refuses bfloat16, which oneDNN does not support.
    """
    pytest.importorskip("mxnet", reason="the worker half needs MXNet, which is not in this environment")
    if "avx512bw" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        pytest.skip("MXNet's bfloat16 takes a processor with AVX-512, and this one has none")
    return multiprocess.run_ranks(__file__, name, ports=1, processes=1)[0]


@pytest.mark.parametrize("name", CASES)
def test_the_outputs_are_bfloat16s(name):
    output = answer(name)
    assert output["observed"]["precision"] == "amp-bf16"
    assert 2**-9 < output["deviation"] < 2**-4
    assert len({replica["digest"] for replica in output["replicas"]}) == 1


def losses(name):
    return [replica["losses"] for replica in answer(name)["replicas"]]


def test_a_graph_trains_as_the_imperative_network_does():
    """Were residual sums `+`, whose imperative kernel cuts bfloat16s off instead of rounding them, the second loss
    would be off by 3.6e-2."""
    (imperative,), (graph,) = losses("images"), losses("images-graph")
    assert imperative == pytest.approx(graph, rel=1e-3)


NO_BFLOAT16 = """
from dlperf_mxnet.precisions import PRECISIONS
from dlperf_mxnet.worker import mixed
from dlperf_sdk.worker.unsupported import Unsupported
try:
    mixed.switch_on(PRECISIONS["amp-bf16"])
except Unsupported as refused:
    assert "AVX-512" in str(refused), refused
else:
    raise AssertionError("it was switched on")
"""


ONE_BATCH_DOT = """
import mxnet as mx
from mxnet.contrib.amp.amp import bfloat16
ones = mx.nd.amp_cast(mx.nd.ones((2, 16, 16)), dtype=bfloat16)
try:
    mx.nd.batch_dot(ones, ones).wait_to_read()
except mx.MXNetError as error:
    assert "dot only supports float32/float64 for CPU" in str(error), error
else:
    raise AssertionError("it has a product of batches in bfloat16")
"""


def test_there_is_no_batched_product_in_bfloat16():
    """Which is why BERT in amp-bf16 is refused."""
    pytest.importorskip("mxnet", reason="the worker half needs MXNet, which is not in this environment")
    subprocess.run([sys.executable, "-c", ONE_BATCH_DOT], check=True)


def test_a_processor_without_bfloat16_is_named():
    pytest.importorskip("mxnet", reason="the worker half needs MXNet, which is not in this environment")
    variables = {**os.environ, "DNNL_MAX_CPU_ISA": "AVX2", "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", NO_BFLOAT16], check=True, env=variables)


if __name__ == "__main__":
    multiprocess.run_rank(train)
