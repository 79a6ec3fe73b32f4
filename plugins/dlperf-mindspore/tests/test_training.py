"""The worker half in one process: the arithmetic of MindSpore that the plugin relies on, and what a step leaves."""

import itertools

import numpy as np
import pytest

ms = pytest.importorskip(
    "mindspore", reason="the worker half needs MindSpore, which is not in this environment"
)
from dlperf_mindspore.worker.devices import take_device  # noqa: E402
from dlperf_mindspore.worker.resnet50 import batch_norm  # noqa: E402

from dlperf_sdk.worker.unsupported import Unsupported  # noqa: E402


@pytest.mark.parametrize(("device", "needed"), [("npu", "Huawei's CANN"), ("cuda", "cuDNN")])
def test_a_device_that_is_not_here_is_refused_with_a_next_step(device, needed):
    with pytest.raises(Unsupported, match=f"cannot use .*; install .*{needed}, or run with --device cpu"):
        take_device(device, 0)


def losses(trainer, steps):
    batch = trainer.canonical_batch()
    taken = [trainer.step(batch) for _ in range(steps)]
    # Read late: a handle must survive the steps that follow it.
    return [trainer.read_loss(step.loss)[0] for step in taken]


def moved(trainer, names, scale, rates):
    """Steps with made-up gradients: the parameters before, the gradients of each step, the parameters after."""
    chance = np.random.RandomState(1)
    before = {name: trainer.named[name].asnumpy().astype(np.float64) for name in names}
    taken = []
    for rate in rates:
        taken.append({})
        gradients = []
        for entry in trainer.request.parameters:
            gradient = (scale * chance.standard_normal(entry["shape"])).astype(np.float32)
            gradients.append(ms.Tensor(gradient))
            taken[-1][entry["name"]] = gradient.astype(np.float64)
        trainer.gradients = tuple(gradients)
        trainer.set_learning_rate(rate)
        trainer.update()
    return before, taken, {name: trainer.named[name].asnumpy() for name in names}


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
    trainer.gradients = tuple(
        ms.Tensor(np.full(entry["shape"], 0.01, np.float32)) for entry in trainer.request.parameters
    )
    norm = 0.01 * sum(int(np.prod(entry["shape"])) for entry in trainer.request.parameters) ** 0.5
    assert norm > 0.5
    trainer.update()
    np.testing.assert_allclose(trainer.gradients[0].asnumpy(), 0.01 * 0.5 / norm, rtol=1e-5)


def test_a_reset_forgets_the_moments_and_the_count(make_trainer):
    trainer = make_trainer("bert-base")
    first = losses(trainer, 3)
    trainer.reset()
    assert trainer.count_updates() == 0
    assert all(not values.any() for _, values in trainer.moments(0))
    assert losses(trainer, 3) == pytest.approx(first, rel=1e-6)


def test_label_smoothing_is_the_published_formula(make_trainer):
    trainer = make_trainer("resnet50", options={"label_smoothing": 0.3})
    logits = np.random.RandomState(1).standard_normal((4, 10))
    label = trainer.canonical_batch()["label"]
    minus_log = -(logits - np.log(np.exp(logits).sum(1, keepdims=True)))
    expected = (0.7 * minus_log[np.arange(4), label.asnumpy()] + 0.3 * minus_log.mean(1)).mean()
    actual = trainer.loss((ms.Tensor(logits.astype(np.float32)),), {"label": label})
    assert float(actual.asnumpy()) == pytest.approx(expected, rel=1e-6)


def test_dropout_is_on_while_training_and_off_for_the_evidence(make_trainer):
    still, dropping = (make_trainer("bert-base", options={"dropout": rate}) for rate in (0.0, 0.5))
    assert dropping.deviation() < 1e-6
    assert losses(still, 1) != pytest.approx(losses(dropping, 1), rel=1e-4)


@pytest.mark.parametrize("compiler", ["none", "graph"])
def test_dropout_masks_differ_between_steps(make_trainer, compiler):
    options = {"dropout": 0.5, "learning_rate": 0.0}
    trainer = make_trainer("bert-base", options=options, compiler=compiler)
    assert len(set(losses(trainer, 3))) == 3


def test_a_new_seed_does_not_change_the_masks_of_dropout(make_trainer):
    """Were MindSpore to mend this, the runtime could say that it sets the seed."""
    trainer = make_trainer("bert-base", options={"dropout": 0.5, "learning_rate": 0.0})
    assert not trainer.runtime.seed()
    first = losses(trainer, 1)
    trainer.runtime.seed()
    assert losses(trainer, 1) != first


def test_gradient_accumulation_is_one_step(make_trainer):
    whole, parts = (make_trainer("bert-base", accumulation=n) for n in (1, 2))
    assert losses(parts, 3) == pytest.approx(losses(whole, 3), rel=1e-6)
    assert parts.observed()["accumulation"] == 2


def test_the_graph_trains_as_eager_mode_does_and_on_the_batch_that_it_gets(make_trainer):
    eager, graph = (make_trainer("bert-base", compiler=name) for name in ("none", "graph"))
    assert losses(graph, 3) == pytest.approx(losses(eager, 3), rel=1e-6)
    assert graph.observed()["compiler"] == "graph"
    batch = {**graph.canonical_batch(), "input_ids": graph.canonical_batch()["input_ids"] * 0 + 5}
    eager.reset(), graph.reset()
    (expected,) = eager.read_loss(eager.step(batch).loss)
    assert graph.read_loss(graph.step(batch).loss) == pytest.approx([expected], rel=1e-6)


def test_running_means_move_by_a_tenth_and_evidence_leaves_them(make_trainer):
    trainer = make_trainer("resnet50")
    trainer.deviation()
    assert all(not values.any() for _, values in trainer.running_means(0))
    batch = trainer.canonical_batch()
    expected = 0.1 * trainer.network.conv1(batch["image"]).asnumpy().mean((0, 2, 3))
    losses(trainer, 1)
    means = dict(trainer.running_means(0))
    assert len(means) == 53
    np.testing.assert_allclose(means["bn1.running_mean"], expected, atol=1e-6)


@pytest.mark.parametrize("source", ["synthetic", "synthetic-host"])
def test_synthetic_batches_are_the_canonical_one(make_trainer, source):
    trainer = make_trainer("bert-base", data={"source": source})
    expected = trainer.canonical_batch()
    for batch in itertools.islice(trainer.batches(), 3):
        assert batch.keys() == expected.keys()
        assert all((batch[name].asnumpy() == value.asnumpy()).all() for name, value in expected.items())


def test_batch_norm_keeps_its_digits_where_the_mean_is_large(make_trainer):
    make_trainer("resnet50")
    values = np.random.RandomState(0).standard_normal((4, 8, 16, 16)).astype(np.float32) + 100
    wide = values.astype(np.float64)
    centered = wide - wide.mean((0, 2, 3), keepdims=True)
    expected = centered / np.sqrt(wide.var((0, 2, 3), keepdims=True) + 1e-5)
    layer = batch_norm(8).set_train()
    np.testing.assert_allclose(layer(ms.Tensor(values)).asnumpy(), expected, atol=2e-5)
    np.testing.assert_allclose(layer.moving_mean.asnumpy(), 0.1 * wide.mean((0, 2, 3)), rtol=1e-5)


def test_out_of_memory_is_told_by_the_message(make_trainer):
    runtime = make_trainer("bert-base").runtime
    assert runtime.is_out_of_memory(MemoryError())
    assert runtime.is_out_of_memory(RuntimeError("Allocate memory failed: std::bad_alloc"))
    assert not runtime.is_out_of_memory(RuntimeError("a shape does not fit"))
