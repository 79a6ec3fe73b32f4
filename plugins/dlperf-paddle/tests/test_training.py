"""The worker half in one process: arithmetic that no other test looks at, and what is in effect."""

import numpy as np
import pytest
from dlperf_paddle.framework import Paddle

from dlperf_sdk.harness.in_process import summarize_traced_steps

paddle = pytest.importorskip(
    "paddle", reason="the worker half needs Paddle, which is not in this environment"
)


def losses(trainer, steps):
    batch = trainer.canonical_batch()
    taken = [trainer.step(batch) for _ in range(steps)]
    # Read late: a handle must survive the steps that follow it.
    return [trainer.read_loss(step.loss)[0] for step in taken]


def moved(trainer, names, scale, rates):
    """Steps with made-up gradients: the parameters before, the gradients of each step, the parameters after."""
    chance = np.random.RandomState(1)
    parameters = trainer.named
    before = {name: parameters[name].numpy().astype(np.float64) for name in names}
    taken = []
    for rate in rates:
        taken.append({})
        for name, parameter in parameters.items():
            gradient = scale * chance.standard_normal(parameter.shape)
            parameter.grad = paddle.to_tensor(gradient.astype(np.float32))
            if name in names:
                taken[-1][name] = parameter.grad.numpy().astype(np.float64)
        trainer.optimizer.set_lr(rate)
        trainer.optimizer.step()
    return before, taken, {name: parameters[name].numpy() for name in names}


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


def test_the_rate_makes_up_for_the_rounding_in_adamws_powers_of_beta():
    """Constant gradients: each step is the rate. Paddle's fourth is 3e-6 of it short without that."""
    from dlperf_paddle.worker.optimizers import rounding_of_adamw

    weight = paddle.create_parameter([1], "float32", default_initializer=paddle.nn.initializer.Constant(0.0))
    adamw = paddle.optimizer.AdamW(1e-3, epsilon=0.0, parameters=[weight], weight_decay=0.0)
    for step, factor in zip(range(1, 9), rounding_of_adamw(0.9, 0.999), strict=False):
        adamw.set_lr(1e-3 * factor)
        weight.grad = paddle.ones([1])
        adamw.step()
        assert weight.item() == pytest.approx(-1e-3 * step, rel=5e-7)


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
    parameters = list(trainer.named.values())
    gradients = [paddle.full(parameter.shape, 0.01) for parameter in parameters]
    norm = 0.01 * sum(int(np.prod(parameter.shape)) for parameter in parameters) ** 0.5
    clipped = trainer.optimizer._grad_clip(list(zip(parameters, gradients, strict=True)))
    assert norm > 0.5
    np.testing.assert_allclose(clipped[0][1].numpy(), 0.01 * 0.5 / norm, rtol=1e-5)


def test_label_smoothing_is_the_published_formula(make_trainer):
    trainer = make_trainer("resnet50", options={"label_smoothing": 0.3})
    logits = np.random.RandomState(1).standard_normal((4, 10))
    label = trainer.canonical_batch()["label"]
    minus_log = -(logits - np.log(np.exp(logits).sum(1, keepdims=True)))
    expected = (0.7 * minus_log[np.arange(4), label.numpy()] + 0.3 * minus_log.mean(1)).mean()
    actual = trainer.loss((paddle.to_tensor(logits.astype(np.float32)),), {"label": label})
    assert float(actual) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("compiler", ["none", "graph"])
def test_dropout_is_on_while_training_and_off_for_the_evidence(make_trainer, compiler):
    still, dropping = (
        make_trainer("bert-base", options={"dropout": rate}, compiler=compiler) for rate in (0.0, 0.5)
    )
    # What was compiled for the evidence must not be what trains.
    assert dropping.deviation() < 1e-6
    assert losses(still, 1) != pytest.approx(losses(dropping, 1), rel=1e-4)


def test_the_graph_is_static_and_computes_the_same(make_trainer):
    plain, graph = make_trainer("bert-base"), make_trainer("bert-base", compiler="graph")
    assert losses(graph, 3) == pytest.approx(losses(plain, 3), rel=1e-6)
    assert graph.observed()["compiler"] == "graph" and plain.observed()["compiler"] == "none"
    programs = graph.network.forward.program_cache
    assert len(programs) == 1 and graph.network.forward.main_program.num_ops() > 50


def test_layouts_and_accumulation_compute_the_same(make_trainer):
    options = {"learning_rate": 0.02}
    nchw, nhwc = (make_trainer("resnet50", layout=layout, options=options) for layout in ("nchw", "nhwc"))
    assert losses(nhwc, 3) == pytest.approx(losses(nchw, 3), rel=2e-5)
    assert (nhwc.observed()["layout"], nchw.observed()["layout"]) == ("nhwc", "nchw")
    whole, parts = make_trainer("bert-base"), make_trainer("bert-base", accumulation=2)
    assert losses(parts, 3) == pytest.approx(losses(whole, 3), rel=1e-6)


def test_running_means_move_by_a_tenth_and_evidence_leaves_them(make_trainer):
    trainer = make_trainer("resnet50")
    trainer.deviation()
    assert all(not values.any() for _, values in trainer.running_means(0))
    batch = trainer.canonical_batch()
    expected = 0.1 * trainer.network.conv1(batch["image"]).mean((0, 2, 3)).numpy()
    losses(trainer, 1)
    means = dict(trainer.running_means(0))
    assert len(means) == 53
    np.testing.assert_allclose(means["bn1.running_mean"], expected, atol=1e-6)


def test_out_of_memory_is_known(make_trainer):
    runtime = make_trainer("bert-base").runtime
    assert runtime.is_out_of_memory(MemoryError())
    assert runtime.is_out_of_memory(RuntimeError("ResourceExhaustedError: Fail to alloc memory"))
    assert not runtime.is_out_of_memory(ValueError("ResourceExhaustedError"))


def test_the_trace_shows_operators(make_trainer, tmp_path):
    summary = summarize_traced_steps(make_trainer("bert-base"), Paddle, tmp_path)
    names = {operator.name for operator in summary.operators}
    assert "matmul" in names
    assert 0 < summary.busy <= summary.window
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]
