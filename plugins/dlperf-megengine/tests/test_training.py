"""The worker half in one process: the arithmetic of MegEngine that the plugin relies on, and what a step leaves."""

import itertools

import numpy as np
import pytest
from dlperf_megengine.framework import MegEngine

from dlperf_sdk.harness.in_process import summarize_traced_steps

mge = pytest.importorskip(
    "megengine", reason="the worker half needs MegEngine, which is not in this environment"
)
import megengine.functional as F  # noqa: E402
from dlperf_megengine.worker.resnet50 import batch_norm  # noqa: E402


def losses(trainer, steps):
    batch = trainer.canonical_batch()
    taken = [trainer.step(batch) for _ in range(steps)]
    # Read late: a handle must survive the steps that follow it.
    return [trainer.read_loss(step.loss)[0] for step in taken]


def moved(trainer, names, scale, rates):
    """Steps with made-up gradients: the parameters before, the gradients of each step, the parameters after."""
    chance = np.random.RandomState(1)
    before = {name: trainer.named[name].numpy().astype(np.float64) for name in names}
    taken = []
    for rate in rates:
        taken.append({})
        for name, parameter in trainer.named.items():
            gradient = (scale * chance.standard_normal(parameter.shape)).astype(np.float32)
            parameter.grad = mge.Tensor(gradient)
            if name in names:
                taken[-1][name] = gradient.astype(np.float64)
        trainer.set_learning_rate(rate)
        trainer.update()
    return before, taken, {name: trainer.named[name].numpy() for name in names}


def test_adamw_is_the_formula_in_float64(make_trainer):
    options = {"learning_rate": 1e-3, "weight_decay": 0.1, "clip_norm": None}
    trainer = make_trainer("bert-base", options=options)
    numbers, rates = trainer.request.optimizer, (1e-3, 2e-3, 1e-3)
    names = {"pooler.weight": numbers["weight_decay"], "pooler.bias": 0.0}
    theta, taken, after = moved(trainer, names, 1e-6, rates)
    b1, b2 = numbers["beta1"], numbers["beta2"]
    for name, decay in names.items():
        m = v = 0.0
        for t, (rate, gradients) in enumerate(zip(rates, taken, strict=True), start=1):
            g = gradients[name]
            m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
            ratio = m / (1 - b1**t) / (np.sqrt(v / (1 - b2**t)) + numbers["epsilon"])
            theta[name] = theta[name] - rate * (ratio + decay * theta[name])
        np.testing.assert_allclose(after[name], theta[name], atol=1e-7)
    assert trainer.count_updates() == 3


def test_momentum_is_the_formula_under_a_changing_rate(make_trainer):
    trainer = make_trainer("resnet50", options={"weight_decay": 0.01})
    numbers, rates = trainer.request.optimizer, (0.5, 0.1, 0.2)
    names = {"conv1.weight": numbers["weight_decay"], "bn1.weight": 0.0}
    theta, taken, after = moved(trainer, names, 1.0, rates)
    for name, decay in names.items():
        velocity = 0.0
        for rate, gradients in zip(rates, taken, strict=True):
            velocity = numbers["momentum"] * velocity + gradients[name] + decay * theta[name]
            theta[name] = theta[name] - rate * velocity
        np.testing.assert_allclose(after[name], theta[name], rtol=1e-5, atol=1e-6)


def test_the_clip_is_by_the_common_norm(make_trainer):
    trainer = make_trainer("bert-base", options={"clip_norm": 0.5})
    for parameter in trainer.trained:
        parameter.grad = mge.Tensor(np.full(parameter.shape, 0.01, np.float32))
    norm = 0.01 * sum(int(np.prod(parameter.shape)) for parameter in trainer.trained) ** 0.5
    assert norm > 0.5
    trainer.update()
    np.testing.assert_allclose(trainer.trained[0].grad.numpy(), 0.01 * 0.5 / norm, rtol=1e-5)


def test_label_smoothing_is_the_published_formula(make_trainer):
    trainer = make_trainer("resnet50", options={"label_smoothing": 0.3})
    logits = np.random.RandomState(1).standard_normal((4, 10))
    label = trainer.canonical_batch()["label"]
    minus_log = -(logits - np.log(np.exp(logits).sum(1, keepdims=True)))
    expected = (0.7 * minus_log[np.arange(4), label.numpy()] + 0.3 * minus_log.mean(1)).mean()
    actual = trainer.loss((mge.Tensor(logits.astype(np.float32)),), {"label": label})
    assert actual.item() == pytest.approx(expected, rel=1e-6)


def test_dropout_is_on_while_training_and_off_for_the_evidence(make_trainer):
    still, dropping = (make_trainer("bert-base", options={"dropout": rate}) for rate in (0.0, 0.5))
    assert dropping.deviation() < 1e-6
    assert losses(still, 1) != pytest.approx(losses(dropping, 1), rel=1e-4)


def test_dropout_masks_differ_between_steps_and_follow_the_seed(make_trainer):
    trainer = make_trainer("bert-base", options={"dropout": 0.5, "learning_rate": 0.0})
    assert trainer.runtime.seed()
    first = losses(trainer, 3)
    assert len(set(first)) == 3
    assert trainer.runtime.seed()
    assert losses(trainer, 3) == first


def test_gradient_accumulation_is_one_step(make_trainer):
    whole, parts = (make_trainer("bert-base", accumulation=n) for n in (1, 2))
    assert losses(parts, 3) == pytest.approx(losses(whole, 3), rel=1e-6)
    assert parts.observed()["accumulation"] == 2


def test_running_means_move_by_a_tenth_and_evidence_leaves_them(make_trainer):
    trainer = make_trainer("resnet50")
    trainer.deviation()
    assert all(not values.any() for _, values in trainer.running_means(0))
    batch = trainer.canonical_batch()
    expected = 0.1 * trainer.network.conv1(batch["image"]).numpy().mean((0, 2, 3))
    losses(trainer, 1)
    means = dict(trainer.running_means(0))
    assert len(means) == 53
    np.testing.assert_allclose(means["bn1.running_mean"], expected, atol=1e-6)


def test_wait_returns_when_the_step_is_done(make_trainer):
    trainer = make_trainer("bert-base")
    batch = trainer.canonical_batch()
    for _ in range(3):
        trainer.runtime.wait(trainer.step(batch).loss)
    after = [values.copy() for _, values in trainer.parameters(0)]
    trainer.runtime.synchronize()
    assert all((a == b).all() for a, (_, b) in zip(after, trainer.parameters(0), strict=True))


@pytest.mark.parametrize("source", ["synthetic", "synthetic-host"])
def test_synthetic_batches_are_the_canonical_one(make_trainer, source):
    trainer = make_trainer("bert-base", data={"source": source})
    expected = trainer.canonical_batch()
    for batch in itertools.islice(trainer.batches(), 3):
        assert batch.keys() == expected.keys()
        assert all((batch[name].numpy() == value.numpy()).all() for name, value in expected.items())


def test_threads_of_the_process_compute_the_same(make_trainer, monkeypatch):
    one = make_trainer("bert-base")
    expected = losses(one, 3)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    two = make_trainer("bert-base")
    assert losses(two, 3) == pytest.approx(expected, rel=1e-6)
    assert one.runtime.facts()["devices"] == ["cpu0"]
    assert two.runtime.facts()["devices"] == ["multithread2:0"] and two.runtime.facts()["threads"] == 2
    assert two.trained[0].device == "multithread2:0"


def test_batch_norm_keeps_its_digits_where_the_mean_is_large(make_trainer):
    make_trainer("resnet50")
    values = np.random.RandomState(0).standard_normal((4, 8, 16, 16)).astype(np.float32) + 100
    wide = values.astype(np.float64)
    centered = wide - wide.mean((0, 2, 3), keepdims=True)
    expected = centered / np.sqrt(wide.var((0, 2, 3), keepdims=True) + 1e-5)
    layer = batch_norm(8)
    layer.train()
    np.testing.assert_allclose(layer(mge.Tensor(values)).numpy(), expected, atol=5e-6)
    np.testing.assert_allclose(layer.running_mean.numpy().reshape(-1), 0.1 * wide.mean((0, 2, 3)), rtol=1e-5)


def test_an_allocation_that_fails_later_is_out_of_memory(make_trainer):
    runtime = make_trainer("bert-base").runtime
    error = RuntimeError("An async error is reported")
    assert not runtime.is_out_of_memory(error)
    error.__cause__ = RuntimeError("failed to malloc 400000000bytes with align 64")
    assert runtime.is_out_of_memory(error)


def test_refusal_of_16_bit_types_matches_the_behavior():
    """Were MegEngine to mend this, mixed precision could be offered on a CPU."""
    images = mge.Tensor(np.random.RandomState(0).standard_normal((2, 3, 8, 8)).astype(np.float32))
    due = F.max_pool2d(images, 3, 2, 1).numpy()
    # The output is memory as it was: zeros in a new process, later also NaN.
    actual = F.max_pool2d(images.astype("float16"), 3, 2, 1).numpy()
    assert not np.allclose(actual, due, rtol=0.01)
    assert "max-pooling in float16" in MegEngine.unsupported["fp16"]


def test_the_trace_shows_operators(make_trainer, tmp_path):
    summary = summarize_traced_steps(make_trainer("bert-base"), MegEngine, tmp_path)
    names = {operator.name for operator in summary.operators}
    assert "MatrixMul" in names
    assert 0 < summary.busy <= summary.window
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]
