"""The worker half in one process: arithmetic that no other test looks at, precision in effect."""

import itertools

import numpy as np
import pytest
from dlperf_jax.framework import Jax

from dlperf_sdk.harness.in_process import summarize_traced_steps

jax = pytest.importorskip("jax", reason="the worker half needs JAX, which is not in this environment")
from dlperf_jax.precisions import PRECISIONS  # noqa: E402
from dlperf_jax.worker import evidence  # noqa: E402
from dlperf_jax.worker.optimizers import optimizer_for  # noqa: E402
from jax import numpy as jnp  # noqa: E402

from dlperf_sdk.worker.base_trainer import ManifestError  # noqa: E402

SGD = {"kind": "sgd", "momentum": 0.875, "weight_decay": 0.01}
ADAMW = {
    "kind": "adamw",
    "beta1": 0.9,
    "beta2": 0.999,
    "epsilon": 1e-6,
    "weight_decay": 0.01,
    "clip_norm": 1.0,
}
RATES = (0.01, 0.02, 0.02, 0.005, 0.1)
# Below the norm of the clip at first, and above it later.
GRADIENTS = [
    scale * gradient
    for scale, gradient in zip(
        (0.01, 0.1, 1.0, 5.0, 0.3), np.random.RandomState(0).standard_normal((5, 40)), strict=True
    )
]


def losses(trainer, steps):
    batch = trainer.canonical_batch()
    taken = [trainer.step(batch) for _ in range(steps)]
    # Read late: a handle must survive the steps that follow it.
    return [trainer.read_loss(step.loss)[0] for step in taken]


def updated(numbers):
    """A parameter of 40 with weight decay after five steps at these rates."""
    weights = {"w": jnp.linspace(-1, 1, 40)}
    optimizer = optimizer_for(numbers, {"w": True})
    state = optimizer.init(weights)
    for rate, gradient in zip(RATES, GRADIENTS, strict=True):
        updates, state = optimizer.update({"w": jnp.float32(gradient)}, state, weights)
        weights = {"w": weights["w"] - rate * updates["w"]}
    return weights["w"]


def test_sgd_is_the_formula_under_a_changing_rate():
    weight, v = np.linspace(-1, 1, 40), 0.0
    for rate, g in zip(RATES, GRADIENTS, strict=True):
        v = SGD["momentum"] * v + g + SGD["weight_decay"] * weight
        weight = weight - rate * v
    np.testing.assert_allclose(updated(SGD), weight, rtol=1e-5, atol=1e-6)


def test_adamw_is_the_formula_with_its_clip():
    weight, m, v = np.linspace(-1, 1, 40), 0.0, 0.0
    for t, (rate, g) in enumerate(zip(RATES, GRADIENTS, strict=True), start=1):
        clipped = g * min(1.0, 1.0 / np.sqrt((g * g).sum()))
        m, v = 0.9 * m + 0.1 * clipped, 0.999 * v + 0.001 * clipped * clipped
        ratio = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-6)
        weight = weight - rate * (ratio + 0.01 * weight)
    np.testing.assert_allclose(updated(ADAMW), weight, rtol=2e-5, atol=1e-6)


def test_label_smoothing_is_the_published_formula(make_trainer):
    trainer = make_trainer("resnet50", options={"label_smoothing": 0.3})
    logits = np.random.RandomState(1).standard_normal((4, 10))
    label = trainer.canonical_batch()["label"]
    minus_log = -(logits - np.log(np.exp(logits).sum(1, keepdims=True)))
    expected = (0.7 * minus_log[np.arange(4), label] + 0.3 * minus_log.mean(1)).mean()
    assert float(trainer.loss((jnp.float32(logits),), {"label": label})) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("precision", "low", "high"),
    [("fp32", 0.0, 1e-5), ("amp-fp16", 2.5e-4, 4e-3), ("amp-bf16", 2e-3, 6e-2), ("fp16", 2.5e-4, 4e-3)],
)
def test_deviation_reveals_the_precision(make_trainer, precision, low, high):
    trainer = make_trainer("bert-base", precision=precision)
    assert low <= trainer.deviation() <= high
    assert trainer.observed()["precision"] == precision


def test_products_in_another_precision_are_seen(make_trainer):
    trainer = make_trainer("bert-base", precision="amp-bf16")
    trainer.precision = PRECISIONS["fp32"]
    trainer._trace_step()
    assert trainer.deviation() < 1e-5
    assert trainer.observed()["precision"] == "fp32"


def test_a_gpu_may_round_products_unless_they_are_of_the_highest_precision():
    ones = jnp.ones((2, 2))
    found = {}
    for precision in ("highest", "tensorfloat32"):
        with jax.default_matmul_precision(precision):
            products = list(evidence.find_products(jax.make_jaxpr(jnp.matmul)(ones, ones)))
        assert len(products) == 1
        found[precision] = evidence.allows_tf32(products, "cuda")
    assert found == {"highest": False, "tensorfloat32": True}


@pytest.mark.parametrize("precision", ["amp-fp16", "amp-bf16", "fp16"])
def test_a_gpu_cannot_round_narrower_products_to_tf32(make_trainer, precision):
    with jax.default_matmul_precision(None):  # as the runtime leaves it for these precisions
        trainer = make_trainer("bert-base", precision=precision)
        trainer.request = trainer.request._replace(device="cuda")
        assert trainer.observed()["precision"] == precision


def test_weights_in_float16_are_the_masters_rounded(make_trainer):
    trainer = make_trainer("resnet50", precision="fp16")
    stored = trainer._store_weights(trainer.state["weights"], PRECISIONS["fp16"].weights)
    for name, master in trainer.state["weights"].items():
        is_norm = ".bn" in name or "downsample.1" in name or name.startswith("bn1")
        assert master.dtype == jnp.float32
        assert stored[name].dtype == (jnp.float32 if is_norm else jnp.float16)


def test_an_overflow_is_skipped_and_changes_nothing(make_trainer):
    trainer = make_trainer("bert-base", precision="amp-fp16")
    good = trainer.canonical_batch()
    bad = dict(good, masked_weights=0 * good["masked_weights"])  # 0 / 0

    def snapshot():
        scale = trainer.state["scale"]
        weights = {name: values.copy() for name, values in trainer.parameters(0)}
        return weights, float(scale["scale"]), int(scale["good_steps"])

    trainer.step(good)
    before, scale, good_steps = snapshot()
    assert good_steps == 1
    trainer.step(bad)
    after, halved, good_steps = snapshot()
    assert trainer.skipped_steps() == 1
    assert (halved, good_steps) == (scale / 2, 0)
    assert all((after[name] == values).all() for name, values in before.items())
    trainer.step(good)
    assert trainer.skipped_steps() == 1
    assert any((snapshot()[0][name] != values).any() for name, values in before.items())


def test_gradient_accumulation_is_one_step(make_trainer):
    """Clipped by the norm of all micro-batches' gradients."""
    numbers = {"optimizer": {**ADAMW, "policy": "constant", "learning_rate": 1e-2}}
    whole, parts = (make_trainer("bert-base", accumulation=count, **numbers) for count in (1, 2))
    assert losses(parts, 4) == pytest.approx(losses(whole, 4), rel=2e-6)
    assert parts.step(parts.canonical_batch()).samples == 4
    assert parts.observed()["accumulation"] == 2


@pytest.mark.parametrize(("model", "moments", "updates"), [("resnet50", 1, None), ("bert-base", 2, 2)])
def test_each_parameter_has_moments_and_adam_counts_its_updates(make_trainer, model, moments, updates):
    trainer = make_trainer(model)
    losses(trainer, 2)
    kept = dict(trainer.moments(0))
    assert len(kept) == moments * len(trainer.request.parameters)
    assert {values.size for values in kept.values()} == {values.size for _, values in trainer.parameters(0)}
    assert trainer.count_updates() == updates
    trainer.reset()
    assert not any(values.any() for _, values in trainer.moments(0))


def test_dropout_differs_from_step_to_step_and_is_off_in_the_evidence(make_trainer):
    trainer = make_trainer("bert-base", options={"dropout": 0.5, "learning_rate": 0.0})
    assert trainer.deviation() == 0.0
    first, second = losses(trainer, 2)
    assert first != second
    (again,) = losses(make_trainer("bert-base", options={"dropout": 0.5, "learning_rate": 0.0}), 1)
    assert again == first


def test_running_means_move_by_a_tenth_and_evidence_leaves_them(make_trainer):
    trainer = make_trainer("resnet50")
    trainer.deviation()
    assert all(not values.any() for _, values in trainer.running_means(0))
    image, kernel = trainer.canonical_batch()["image"], trainer.state["weights"]["conv1.weight"].copy()
    convolved = jax.lax.conv_general_dilated(
        image, kernel, (2, 2), [(3, 3), (3, 3)], dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    losses(trainer, 1)
    means = dict(trainer.running_means(0))
    assert len(means) == 53
    np.testing.assert_allclose(means["bn1.running_mean"], 0.1 * convolved.mean((0, 1, 2)), atol=1e-6)


@pytest.mark.parametrize("source", ["synthetic", "synthetic-host"])
def test_synthetic_batches_are_the_canonical_one(make_trainer, source):
    trainer = make_trainer("bert-base", data={"source": source})
    expected = trainer.canonical_batch()
    for batch in itertools.islice(trainer.batches(), 3):
        assert batch.keys() == expected.keys()
        assert all((batch[name] == value).all() for name, value in expected.items())


def test_placed_batches_have_memory_of_their_own(make_trainer):
    """The programs donate memory, and host arrays are read again."""
    trainer = make_trainer("bert-base")
    (host,) = trainer.host_batches()
    before = host["masked_weights"].copy()
    placed = trainer.place([host])
    host["masked_weights"][...] = -1
    np.testing.assert_array_equal(placed["masked_weights"], before)
    host["masked_weights"][...] = before


def test_parameters_that_differ_from_the_manifest_are_named(make_trainer):
    manifest = make_trainer("bert-base").request.parameters
    fewer = [entry for entry in manifest if entry["name"] != "masked_lm.bias"]
    with pytest.raises(ManifestError, match=r"lacks the network's parameter masked_lm\.bias"):
        make_trainer("bert-base", parameters=fewer)
    with pytest.raises(ManifestError, match=r"network lacks .* extra"):
        make_trainer("bert-base", parameters=[*manifest, {**manifest[0], "name": "extra"}])


def test_the_trace_shows_operators(make_trainer, tmp_path):
    summary = summarize_traced_steps(make_trainer("bert-base"), Jax, tmp_path)
    names = {operator.name for operator in summary.operators}
    assert "dot" in names
    assert 0 < summary.busy <= summary.window
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


def test_out_of_memory_is_recognized(make_trainer):
    runtime = make_trainer("bert-base").runtime
    error = jax.errors.JaxRuntimeError
    assert runtime.is_out_of_memory(error("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes."))
    assert runtime.is_out_of_memory(MemoryError())
    assert not runtime.is_out_of_memory(error("INTERNAL: a shape does not fit"))
    assert not runtime.is_out_of_memory(ValueError("RESOURCE_EXHAUSTED"))
