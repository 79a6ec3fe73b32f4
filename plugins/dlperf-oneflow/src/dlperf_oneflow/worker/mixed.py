"""Mixed precision in eager training: OneFlow's autocast, and a dynamic loss scale, which OneFlow has in graphs only."""

import contextlib

import oneflow as flow

FIRST_SCALE = 2.0**16
GROWTH_STEPS = 2000
"""Good steps after which the scale doubles. It and the first scale are the defaults of `oneflow.amp.GradScaler`."""


def autocast(precision):
    """Return a context manager in which GPUs compute convolutions and matrix products in the type of `precision`.

    `precision` is a `dlperf_sdk.worker.precision.Precision`; if it casts nothing, the context manager does nothing.
    """
    if not precision.casts:
        return contextlib.nullcontext()
    return flow.autocast("cuda", dtype=getattr(flow, precision.products))


class LossScale:
    """The factor of the loss in the backward pass.

    A dynamic scale is halved if a gradient is not finite, and doubled after `GROWTH_STEPS` steps with finite gradients.

    Args:
        is_dynamic: True for a dynamic scale; False for the constant 1.
    """

    def __init__(self, is_dynamic):
        self._is_dynamic = is_dynamic
        self.reset()

    def reset(self):
        """Set the scale, and the number of steps since it last changed, to those before the first step."""
        self.value, self._good_steps = FIRST_SCALE if self._is_dynamic else 1.0, 0

    def scale(self, loss):
        """Return `loss`, a scalar tensor, times the scale."""
        return loss * self.value if self._is_dynamic else loss

    def unscale_(self, gradients):
        """Divide `gradients`, a list of tensors, by the scale in place, and set the scale of the next step.

        With a dynamic scale, wait until the device has computed the gradients.

        Returns:
            True if all gradients are finite, so that the step may update the weights; always True with a constant
            scale.
        """
        if not self._is_dynamic:
            return True
        for gradient in gradients:
            gradient.mul_(1.0 / self.value)
        # Zero times a number that is not finite is not a number.
        if flow.stack([(gradient * 0.0).sum() for gradient in gradients]).sum().item() != 0.0:
            self.value, self._good_steps = max(self.value / 2.0, 1.0), 0
            return False
        self._good_steps += 1
        if self._good_steps == GROWTH_STEPS:
            self.value, self._good_steps = self.value * 2.0, 0
        return True
