"""The loss scale of amp-fp16: Paddle's own GradScaler, let run on a CPU, which has all its kernels.

Products stay in float32 there. What is looked at is which steps are skipped, and what that does to ours.
"""

import types

import numpy as np
import pytest

paddle = pytest.importorskip(
    "paddle", reason="the worker half needs Paddle, which is not in this environment"
)
from paddle.amp import grad_scaler  # noqa: E402

FACTORS = (float("inf"), 1.0, float("nan"), float("inf"), 1.0, 1.0)
"""What the loss of each step is multiplied by; a step is skipped where that is not finite."""
RATE_FACTORS = (1.0, 0.5, 0.25, 0.125)
"""Made up, each another, in place of those that make up for AdamW's rounding."""


@pytest.fixture
def scaled(make_trainer, monkeypatch):
    """Builds the trainer of a case in amp-fp16, its scaler switched on."""
    gpu = types.SimpleNamespace(_expected_place=types.SimpleNamespace(is_gpu_place=lambda: True))

    def make(model, **changes):
        with monkeypatch.context() as patched:
            patched.setattr(grad_scaler, "_dygraph_tracer", lambda: gpu)
            trainer = make_trainer(model, precision="amp-fp16", **changes)
        factors = iter(FACTORS)
        loss = trainer.loss
        monkeypatch.setattr(trainer, "loss", lambda outputs, batch: loss(outputs, batch) * next(factors))
        return trainer

    return make


@pytest.fixture
def older_numpy(monkeypatch):
    """Where a step is skipped Paddle makes a float of an array of one element. NumPy 2.4, which these tests have and
    the environment for GPUs has not, refuses that."""
    monkeypatch.setattr(grad_scaler, "float", lambda value: np.asarray(value).item(), raising=False)


def weights(trainer):
    return np.concatenate([values.ravel() for _, values in trainer.parameters(0)])


@pytest.mark.filterwarnings("ignore:amp_guard can only be enabled on:UserWarning")
@pytest.mark.parametrize("model", ["resnet50", "bert-base"])
def test_step_without_update_is_counted_as_skipped(scaled, older_numpy, model):
    trainer = scaled(model)
    trainer._rate_factors = iter(RATE_FACTORS)
    trainer._rate_factor = next(trainer._rate_factors)
    batch, skipped, factor = trainer.canonical_batch(), 0, iter(RATE_FACTORS)
    in_force = next(factor)
    for finite in np.isfinite(FACTORS):
        before = weights(trainer)
        trainer.step(batch)
        assert trainer.optimizer.get_lr() == pytest.approx(
            trainer.request.optimizer["learning_rate"] * in_force
        )
        assert (weights(trainer) != before).any() == finite
        if finite:
            in_force = next(factor)
        skipped += not finite
        assert trainer.skipped_steps() == skipped
    assert skipped == 3
    assert trainer.scaler.is_enable()
    assert trainer.scaler.state_dict()["scale"].item() == trainer.scaler.get_init_loss_scaling() / 2**skipped


@pytest.mark.filterwarnings("ignore:amp_guard can only be enabled on:UserWarning")
def test_why_the_environment_for_gpus_has_an_older_numpy(scaled):
    trainer = scaled("bert-base")
    with pytest.raises(TypeError, match="0-dimensional"):
        trainer.step(trainer.canonical_batch())


def test_loss_scale_matches_the_readme(scaled):
    scaler = scaled("bert-base").scaler
    assert scaler.get_init_loss_scaling() == 2.0**16
    assert (scaler.get_incr_ratio(), scaler.get_incr_every_n_steps()) == (2.0, 2000)
    assert (scaler.get_decr_ratio(), scaler.get_decr_every_n_nan_or_inf()) == (0.5, 1)


def test_without_fp16_nothing_is_scaled_or_skipped(make_trainer):
    trainer = make_trainer("bert-base")
    batch = trainer.canonical_batch()
    for _ in range(2):
        trainer.step(batch)
    assert not trainer.scaler.is_enable()
    assert trainer.skipped_steps() == 0
