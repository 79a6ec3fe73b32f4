"""The arithmetic that is written out because MXNet's own is another, against float64 in NumPy."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

mx = pytest.importorskip("mxnet", reason="the worker half needs MXNet, which is not in this environment")
from dlperf_mxnet.worker import evidence  # noqa: E402
from dlperf_mxnet.worker.arithmetic import negative_log_softmax  # noqa: E402
from dlperf_mxnet.worker.optimizers import optimizer, sum_of_squares  # noqa: E402

SGD = {"kind": "sgd", "learning_rate": 0.1, "momentum": 0.875, "weight_decay": 0.01}
ADAMW = {
    "kind": "adamw",
    "learning_rate": 1e-2,
    "beta1": 0.9,
    "beta2": 0.999,
    "epsilon": 1e-6,
    "weight_decay": 0.01,
    "clip_norm": 1.0,
}
RATES = (0.01, 0.02, 0.02, 0.005, 0.1)


def gradients():
    """Of five steps, small and large: the norm is below the clip at first, and above it later."""
    draws = np.random.RandomState(0).standard_normal((5, 40))
    return [scale * g for scale, g in zip((0.01, 0.1, 1.0, 5.0, 0.3), draws, strict=True)]


def trained(numbers):
    """A parameter of 40 after five steps at these rates, from MXNet."""
    created = optimizer(numbers)
    weight = mx.nd.array(np.linspace(-1, 1, 40))
    created.param_dict = {}
    state = created.create_state(0, weight)
    for rate, g in zip(RATES, gradients(), strict=True):
        gradient = mx.nd.array(g)
        created.set_learning_rate(rate)
        if numbers["kind"] == "adamw":
            if "clip_norm" in numbers:
                created.clip([gradient])
            created.update(0, weight, gradient, state)
        else:
            created.update([0], [weight], [gradient], [state])
    return weight.asnumpy()


def test_running_statistics_are_restored_after_an_exception():
    network = mx.gluon.nn.BatchNorm(in_channels=2)
    network.initialize()
    before = network.running_mean.data().asnumpy()
    with pytest.raises(ZeroDivisionError), evidence.preserve_state(network):
        network.running_mean.set_data(mx.nd.ones(2))
        raise ZeroDivisionError
    assert (network.running_mean.data().asnumpy() == before).all()


def test_sgd_is_the_models_also_where_the_rate_changes():
    weight, v = np.linspace(-1, 1, 40), 0.0
    for rate, g in zip(RATES, gradients(), strict=True):
        v = SGD["momentum"] * v + g + SGD["weight_decay"] * weight
        weight = weight - rate * v
    assert trained(SGD) == pytest.approx(weight, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("clipped", [True, False])
def test_adamw_is_the_models_with_its_clip_if_it_has_one(clipped):
    numbers = {key: value for key, value in ADAMW.items() if clipped or key != "clip_norm"}
    weight, m, v = np.linspace(-1, 1, 40), 0.0, 0.0
    for t, (rate, g) in enumerate(zip(RATES, gradients(), strict=True), start=1):
        used = g * min(1.0, 1.0 / np.sqrt((g * g).sum())) if clipped else g
        m, v = 0.9 * m + 0.1 * used, 0.999 * v + 0.001 * used * used
        ratio = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6)
        weight = weight - rate * (ratio + 0.01 * weight)
    assert trained(numbers) == pytest.approx(weight, rel=1e-6, abs=1e-7)


def test_the_norm_of_many_gradients_is_exact():
    arrays = [np.random.RandomState(i).standard_normal(n) for i, n in enumerate((3, 1000, 1_500_000))]
    exact = sum(np.square(values.astype(np.float32).astype(np.float64)).sum() for values in arrays)
    actual = sum_of_squares([mx.nd.array(values) for values in arrays]).asscalar()
    assert actual == pytest.approx(exact, rel=2e-6)


def test_the_log_likelihood_is_exact():
    logits = np.random.RandomState(0).standard_normal((64, 10)).astype(np.float32) * 5
    wide = logits.astype(np.float64)
    exact = np.log(np.exp(wide).sum(axis=1, keepdims=True)) - wide
    assert negative_log_softmax(mx.nd, mx.nd.array(logits)).asnumpy() == pytest.approx(
        exact, rel=5e-7, abs=1e-6
    )


def losses(trainer, steps):
    batch = trainer.canonical_batch()
    taken = [trainer.step(batch) for _ in range(steps)]
    # Read late: a handle must survive the steps that follow it.
    return [trainer.read_loss(step.loss)[0] for step in taken]


def test_a_graph_trains_as_the_imperative_network_does(make_trainer):
    graph, plain = make_trainer("bert-base", compiler="graph"), make_trainer("bert-base")
    assert losses(graph, 4) == pytest.approx(losses(plain, 4), rel=1e-6)
    assert (graph.observed()["compiler"], plain.observed()["compiler"]) == ("graph", "none")


def test_gradient_accumulation_is_one_step(make_trainer):
    whole, parts = make_trainer("bert-base"), make_trainer("bert-base", accumulation=2)
    assert losses(parts, 4) == pytest.approx(losses(whole, 4), rel=1e-6)
    assert parts.step(parts.canonical_batch()).samples == 4


def test_wait_returns_when_the_step_is_done(make_trainer):
    trainer = make_trainer("bert-base")
    batch = trainer.canonical_batch()
    for _ in range(3):
        handle = trainer.step(batch).loss
        trainer.runtime.wait(handle)
    after = trainer.trained[0].data().asnumpy()
    trainer.runtime.synchronize()
    assert (trainer.trained[0].data().asnumpy() == after).all()


def test_dropout_is_on_while_training_and_off_in_the_evidence(make_trainer):
    trainer = make_trainer("bert-base", options={"dropout": 0.5})
    assert trainer.deviation() == 0.0
    (arrays,) = trainer.canonical_batch()
    with mx.autograd.record():
        first, second = (trainer.outputs(trainer.network, arrays)[0].asnumpy() for _ in range(2))
    assert (first != second).any()


def test_running_means_move_by_a_tenth_and_evidence_leaves_them(make_trainer):
    trainer = make_trainer("resnet50")
    trainer.deviation()
    assert all(not values.any() for _, values in trainer.running_means(0))
    losses(trainer, 1)
    means = dict(trainer.running_means(0))
    assert len(means) == 53
    assert means["bn1.running_mean"].any()


@pytest.mark.parametrize("source", ["synthetic", "synthetic-host"])
def test_synthetic_batches_are_the_canonical_one(make_trainer, source):
    trainer = make_trainer("bert-base", data={"source": source})
    (expected,) = trainer.canonical_batch()
    for (batch,) in itertools.islice(trainer.batches(), 3):
        assert batch.keys() == expected.keys()
        assert all((batch[name] == value).asnumpy().all() for name, value in expected.items())


OUT_OF_MEMORY = """
import resource
import mxnet as mx
from dlperf_mxnet.worker.runtime import MXNetRuntime
mx.nd.zeros((10,)).wait_to_read()
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + (256 << 20), resource.RLIM_INFINITY))
try:
    mx.nd.zeros((1 << 28,)).wait_to_read()
except mx.MXNetError as error:
    assert MXNetRuntime.is_out_of_memory(None, error), error
    assert not MXNetRuntime.is_out_of_memory(None, mx.MXNetError("shapes differ"))
else:
    raise AssertionError("a gigabyte was had")
"""


def test_out_of_memory_is_known():
    subprocess.run([sys.executable, "-c", OUT_OF_MEMORY], check=True)


def test_loss_is_a_json_number(make_trainer):
    trainer = make_trainer("bert-base")
    loss = trainer.step(trainer.canonical_batch()).loss
    assert [type(value) for value in trainer.read_loss(loss)] == [float]


_TRACED = """
import sys
from pathlib import Path

from dlperf_mxnet.framework import MXNet
from dlperf_sdk.harness.in_process import small_trainers, summarize_traced_steps

folder = Path(sys.argv[1])
with small_trainers(MXNet) as make_trainer:
    summary = summarize_traced_steps(make_trainer("bert-base", program="trace"), MXNet, folder)
names = {operator.name for operator in summary.operators}
assert "FullyConnected" in names
assert "ImperativeBulk" not in names
assert 0 < summary.busy <= summary.window
assert [path.name for path in folder.iterdir()] == ["trace.json"]
"""


def test_the_trace_shows_operators(tmp_path):
    # MXNet reads the variable that makes it show them before the first backward pass of a process.
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", _TRACED, str(tmp_path)], check=True, env=variables)
