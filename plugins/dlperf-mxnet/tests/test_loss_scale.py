"""The loss scale of amp-fp16: MXNet's own LossScaler, driven by the trainer's step on a CPU.

Products stay in float32 there: what is looked at is which steps are skipped.
"""

import numpy as np
import pytest

mx = pytest.importorskip("mxnet", reason="the worker half needs MXNet, which is not in this environment")
from mxnet.contrib.amp.loss_scaler import LossScaler  # noqa: E402

FACTORS = (float("inf"), 1.0, float("nan"), float("inf"), 1.0, 1.0)
"""What the loss of each step is multiplied by; a step is skipped where that is not finite."""
SCALES = (16, 16, 15, 15, 14, 13)
"""The logarithm of each step's scale: MXNet halves that of the step after the next."""


@pytest.fixture
def scaled(make_trainer, monkeypatch):
    """Builds the trainer of a case as amp-fp16 has it, but for the casts, which a CPU has no operators for."""

    def make(model, **changes):
        trainer = make_trainer(model, **changes)
        trainer.scales_loss = True
        # What amp.init_trainer does; it insists on the casts.
        trainer.updates._amp_loss_scaler = LossScaler()
        trainer.updates._amp_original_scale = trainer.updates._scale
        factors, loss = iter(FACTORS), trainer.loss
        monkeypatch.setattr(trainer, "loss", lambda outputs, batch: loss(outputs, batch) * next(factors))
        return trainer

    return make


def weights(trainer):
    return np.concatenate([values.ravel() for _, values in trainer.parameters(0)])


@pytest.mark.parametrize("model", ["resnet50", "bert-base"])
def test_step_without_update_is_counted_as_skipped(scaled, model):
    trainer = scaled(model)
    batch, skipped = trainer.canonical_batch(), 0
    for finite, scale in zip(np.isfinite(FACTORS), SCALES, strict=True):
        before = weights(trainer)
        assert trainer.updates._amp_loss_scaler.loss_scale == 2.0**scale
        trainer.step(batch)
        assert (weights(trainer) != before).any() == finite
        skipped += not finite
        assert trainer.skipped_steps() == skipped
    assert skipped == 3


def test_loss_scale_matches_the_readme():
    weight, scaler = mx.gluon.Parameter("weight", shape=(1,)), LossScaler()
    weight.initialize()
    assert scaler.loss_scale == 2.0**16
    assert not any(scaler.has_overflow([weight]) for _ in range(2000))
    assert scaler.loss_scale == 2.0**16
    scaler.has_overflow([weight])
    assert scaler.loss_scale == 2.0**17
