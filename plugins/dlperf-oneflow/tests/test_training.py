"""The arithmetic that is written out because OneFlow's own is another, and what a step leaves behind."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

flow = pytest.importorskip(
    "oneflow", reason="the worker half needs OneFlow, which is not in this environment"
)
from dlperf_oneflow.worker import mixed  # noqa: E402
from dlperf_oneflow.worker.arithmetic import negative_log_likelihood, negative_log_softmax  # noqa: E402
from dlperf_oneflow.worker.optimizers import clip_, optimizer, warm_up  # noqa: E402

from dlperf_sdk.worker.schedule import learning_rate  # noqa: E402

SGD = {"kind": "sgd", "policy": "constant", "learning_rate": 0.1, "momentum": 0.875, "weight_decay": 0.01}
ADAMW = {
    "kind": "adamw",
    "policy": "constant",
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
    """A parameter of 40 after five steps at these rates, from OneFlow."""
    weight = flow.nn.Parameter(flow.from_numpy(np.linspace(-1, 1, 40).astype(np.float32)))
    request = SimpleNamespace(optimizer=numbers, parameters=[{"name": "w", "decay": True}])
    created = optimizer({"w": weight}, request)
    for rate, g in zip(RATES, gradients(), strict=True):
        for group in created.param_groups:
            group["lr"] = rate
        created.zero_grad()
        (weight * flow.from_numpy(g.astype(np.float32))).sum().backward()
        if "clip_norm" in numbers:
            clip_([weight], numbers["clip_norm"])
        created.step()
    return weight.detach().numpy()


def test_sgd_is_the_models_also_where_the_rate_changes():
    weight, v = np.linspace(-1, 1, 40), 0.0
    for rate, g in zip(RATES, gradients(), strict=True):
        v = SGD["momentum"] * v + g + SGD["weight_decay"] * weight
        weight = weight - rate * v
    assert trained(SGD) == pytest.approx(weight, rel=1e-5, abs=1e-6)


def test_adamw_is_the_models_with_its_clip():
    weight, m, v = np.linspace(-1, 1, 40), 0.0, 0.0
    for t, (rate, g) in enumerate(zip(RATES, gradients(), strict=True), start=1):
        clipped = g * min(1.0, 1.0 / np.sqrt((g * g).sum()))
        m, v = 0.9 * m + 0.1 * clipped, 0.999 * v + 0.001 * clipped * clipped
        ratio = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6)
        weight = weight - rate * (ratio + 0.01 * weight)
    assert trained(ADAMW) == pytest.approx(weight, rel=1e-6, abs=1e-7)


def test_negative_log_softmax_is_exact():
    logits = np.random.RandomState(0).standard_normal((64, 10)).astype(np.float32) * 5
    wide = logits.astype(np.float64)
    exact = np.log(np.exp(wide).sum(axis=1, keepdims=True)) - wide
    assert negative_log_softmax(flow.from_numpy(logits)).numpy() == pytest.approx(exact, rel=5e-7, abs=1e-6)
    labels = np.arange(64) % 10
    actual = negative_log_likelihood(flow.from_numpy(logits), flow.from_numpy(labels)).numpy()
    assert actual == pytest.approx(exact[np.arange(64), labels], rel=5e-7, abs=1e-6)


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_graphs_warm_up_is_the_schedules(steps):
    numbers = {"warmup_learning_rate": 0.4, "warmup_steps": steps}
    weight = flow.nn.Parameter(flow.zeros(1))
    scheduler = warm_up(flow.optim.SGD([weight], lr=0.4), numbers)
    for step in range(8):
        (actual,) = scheduler.get_last_lr()
        assert actual == pytest.approx(learning_rate(numbers, "warmup", step))
        scheduler.step()


def losses(trainer, steps):
    batch = trainer.canonical_batch()
    taken = [trainer.step(batch) for _ in range(steps)]
    # Read late: a handle must survive the steps that follow it.
    return [trainer.read_loss(step.loss)[0] for step in taken]


@pytest.mark.parametrize("clip_norm", [0.0, 0.5])
def test_a_graph_trains_as_the_eager_network_does(make_trainer, clip_norm):
    options = {"clip_norm": clip_norm}
    graph = make_trainer("bert-base", options=options, compiler="graph")
    plain = make_trainer("bert-base", options=options)
    assert losses(graph, 4) == pytest.approx(losses(plain, 4), rel=1e-6)
    assert (graph.observed()["compiler"], plain.observed()["compiler"]) == ("graph", "none")


def test_a_graphs_clip_is_at_work(make_trainer):
    """Momentum SGD does not forgive a gradient that is too long, as Adam does."""
    changes = {"optimizer": {**SGD, "learning_rate": 0.1}, "options": {"clip_norm": 0.0}}
    free = make_trainer("bert-base", compiler="graph", **changes)
    changes["optimizer"]["clip_norm"] = 0.1
    clipped, plain = (
        make_trainer("bert-base", compiler=compiler, **changes) for compiler in ("graph", "none")
    )
    actual = losses(clipped, 3)
    assert actual == pytest.approx(losses(plain, 3), rel=1e-6)
    assert actual != pytest.approx(losses(free, 3), rel=1e-3)


def test_gradient_accumulation_is_one_step(make_trainer):
    """Clipped by the norm of all micro-batches' gradients."""
    whole, parts = (make_trainer("bert-base", optimizer=ADAMW, accumulation=n) for n in (1, 2))
    assert losses(parts, 4) == pytest.approx(losses(whole, 4), rel=1e-6)
    assert parts.step(parts.canonical_batch()).samples == 4
    assert parts.observed()["accumulation"] == 2


def test_a_dynamic_loss_scale_changes_no_update(make_trainer):
    """On a CPU the products stay in float32, and the evidence says so."""
    plain, scaled = (make_trainer("bert-base", optimizer=ADAMW, precision=p) for p in ("fp32", "amp-fp16"))
    assert losses(scaled, 4) == pytest.approx(losses(plain, 4), rel=1e-6)
    assert (scaled.skipped_steps(), scaled.count_updates()) == (0, 4)
    assert scaled.deviation() < 1e-6
    assert scaled.observed()["precision"] == "fp32"


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_gradient_that_is_not_finite_skips_the_step(make_trainer, monkeypatch, value):
    monkeypatch.setattr(mixed, "GROWTH_STEPS", 2)
    trainer = make_trainer("bert-base", optimizer=ADAMW, precision="amp-fp16")
    scale_loss, before = trainer.scale_loss, dict(trainer.parameters(0))

    def step(factor):
        monkeypatch.setattr(trainer, "scale_loss", lambda loss: scale_loss(loss) * factor)
        trainer.step(trainer.canonical_batch())
        return trainer.scale.value, trainer.skipped_steps(), trainer.count_updates()

    assert step(value) == (mixed.FIRST_SCALE / 2, 1, 0)
    for name, values in trainer.parameters(0):
        np.testing.assert_array_equal(values, before[name])
    assert step(1.0) == (mixed.FIRST_SCALE / 2, 1, 1)
    assert step(1.0) == (mixed.FIRST_SCALE, 1, 2)
    trainer.reset()
    assert trainer.scale.value == mixed.FIRST_SCALE


def test_mixed_precision_casts_for_a_gpu_in_float16(make_trainer, monkeypatch):
    """What autocast is asked for; the casts themselves need a GPU."""
    asked = []
    autocast = flow.autocast

    def note(device, dtype):
        asked.append((device, dtype))
        return autocast(device, dtype=dtype)

    trainer = make_trainer("resnet50", precision="amp-fp16")
    monkeypatch.setattr(flow, "autocast", note)
    losses(trainer, 1)
    assert asked == [("cuda", flow.float16)]
    trainer.deviation()
    assert asked == [("cuda", flow.float16)] * 2


def test_refusals_on_a_cpu_match_its_behavior(monkeypatch):
    """Were OneFlow to mend one of these, it could be offered."""
    ones = flow.ones(4, 4)
    for dtype in (flow.float16, flow.bfloat16):
        with pytest.warns(UserWarning, match="CPU autocast is not supported"):
            on_cpu = flow.autocast("cpu", dtype=dtype)
        with on_cpu:
            assert flow.matmul(ones, ones).dtype == flow.float32
        graph = mixed_graph(dtype)
        assert (graph(ones).numpy() == flow.matmul(ones, ones).numpy()).all()
        with pytest.raises(RuntimeError, match="op_kernel_not_found"):
            flow.matmul(ones.to(dtype), ones.to(dtype))
    monkeypatch.setenv("ONEFLOW_ENABLE_NHWC", "1")
    values = np.random.RandomState(0).standard_normal((2, 8, 8, 5)).astype(np.float32)
    exact = (values - values.mean((0, 1, 2))) / np.sqrt(values.var((0, 1, 2)) + 1e-5)
    actual = flow.nn.BatchNorm2d(5).train()(flow.from_numpy(values)).numpy()
    # What it leaves unwritten is whatever the memory held: zeros, an older array, or NaN.
    assert not np.allclose(actual, exact, atol=0.1)


def mixed_graph(dtype):
    """A product in a graph that is asked for mixed precision."""

    class Mixed(flow.nn.Graph):
        def __init__(self):
            super().__init__()
            self.config.enable_amp(True, dtype=dtype)

        def build(self, x):
            return flow.matmul(x, x)

    return Mixed()


def test_wait_returns_when_the_step_is_done(make_trainer):
    trainer = make_trainer("bert-base")
    batch = trainer.canonical_batch()
    for _ in range(3):
        trainer.runtime.wait(trainer.step(batch).loss)
    after = [values.copy() for _, values in trainer.parameters(0)]
    trainer.runtime.synchronize()
    assert all((a == b).all() for a, (_, b) in zip(after, trainer.parameters(0), strict=True))


def test_dropout_is_on_while_training_and_off_in_the_evidence(make_trainer):
    trainer = make_trainer("bert-base", options={"dropout": 0.5})
    assert trainer.deviation() == 0.0
    batch = trainer.canonical_batch()
    first, second = (trainer.outputs(trainer.network, batch)[0].numpy() for _ in range(2))
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
    expected = trainer.canonical_batch()
    for batch in itertools.islice(trainer.batches(), 3):
        assert batch.keys() == expected.keys()
        assert all((batch[name].numpy() == value.numpy()).all() for name, value in expected.items())
