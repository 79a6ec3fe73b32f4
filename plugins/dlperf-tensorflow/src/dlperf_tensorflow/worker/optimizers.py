"""The optimizers of the models in TensorFlow's fused kernels, and the loss scale of fp16.

Everything here runs in a replica's context, on that replica's copy of each variable.
"""

import numpy as np
import tensorflow as tf

FIRST_SCALE = 2.0**15
GROWTH_STEPS = 2000
"""Defaults of Keras' `LossScaleOptimizer`: the first scale, and the number of good steps that double it."""


def optimizer_for(numbers, variables, decays, place_near):
    """Return the optimizer of a request.

    Args:
        numbers: `Request.optimizer`.
        variables: The trainable variables.
        decays: For each variable, whether it has weight decay.
        place_near: Function of a variable; returns the device scope of its update.
    """
    kinds = {"sgd": Momentum, "adamw": AdamW}
    if numbers["kind"] in kinds:
        return kinds[numbers["kind"]](numbers, variables, decays, place_near)
    raise ValueError("the tensorflow plugin has no optimizer %r" % numbers["kind"])


def _zeros_like(variables):
    """Return a zero variable of each variable's shape, on its device."""
    zeros = []
    for variable in variables:
        with tf.distribute.get_strategy().extended.colocate_vars_with(variable):
            zeros.append(tf.Variable(tf.zeros(variable.shape), trainable=False))
    return zeros


class Momentum:
    """g ← g + w·θ;  v ← momentum·v + g;  θ ← θ - rate·v."""

    def __init__(self, numbers, variables, decays, place_near):
        self.momentum, self.variables, self._place_near = numbers["momentum"], variables, place_near
        self.decays = [numbers["weight_decay"] * decay for decay in decays]
        self.velocities = self.moments = _zeros_like(variables)
        self.steps = None
        """Nothing counts the updates."""

    def initial_values(self):
        """Yield each variable with its value before the first step."""
        return ((variable, 0.0) for variable in self.moments)

    def apply(self, gradients, rate):
        """Apply one step with these gradients; `rate` is a scalar tensor."""
        for variable, velocity, decay, gradient in zip(
            self.variables, self.velocities, self.decays, gradients
        ):
            with self._place_near(variable):
                tf.raw_ops.ResourceApplyMomentum(
                    var=variable.handle,
                    accum=velocity.handle,
                    lr=rate,
                    grad=gradient + decay * variable if decay else gradient,
                    momentum=self.momentum,
                )


class AdamW:
    """m ← β₁·m + (1 - β₁)·g;  v ← β₂·v + (1 - β₂)·g²;  θ ← θ - rate · (m̂ / (√v̂ + ε) + w·θ).

    The kernel adds ε to √v before the bias correction. Given ε·√(1 - β₂ᵗ) it computes what is written
    above. It rounds β₁ and β₂ to float32 first, and so the corrections are those of the rounded ones.
    """

    def __init__(self, numbers, variables, decays, place_near):
        self._place_near = place_near
        self.beta1, self.beta2 = np.float32(numbers["beta1"]), np.float32(numbers["beta2"])
        self.epsilon, self.variables = numbers["epsilon"], variables
        self.decays = [numbers["weight_decay"] * decay for decay in decays]
        self.first, self.second = _zeros_like(variables), _zeros_like(variables)
        self.moments = self.first + self.second
        self.steps = tf.Variable(tf.zeros((), tf.float64), trainable=False)

    def initial_values(self):
        """Yield each variable with its value before the first step."""
        return ((variable, 0.0) for variable in (*self.moments, self.steps))

    def apply(self, gradients, rate):
        """Apply one step with these gradients; `rate` is a scalar tensor."""
        self.steps.assign_add(tf.ones((), tf.float64))
        bias1 = 1.0 - tf.pow(tf.constant(float(self.beta1), tf.float64), self.steps)
        root2 = tf.sqrt(1.0 - tf.pow(tf.constant(float(self.beta2), tf.float64), self.steps))
        corrected = tf.cast(tf.cast(rate, tf.float64) * root2 / bias1, tf.float32)
        epsilon = tf.cast(self.epsilon * root2, tf.float32)
        for variable, m, v, decay, gradient in zip(
            self.variables, self.first, self.second, self.decays, gradients
        ):
            with self._place_near(variable):
                if decay:
                    variable.assign_sub(rate * decay * variable)
                tf.raw_ops.ResourceApplyAdam(
                    var=variable.handle,
                    m=m.handle,
                    v=v.handle,
                    beta1_power=0.0,
                    beta2_power=0.0,
                    lr=corrected,
                    beta1=self.beta1,
                    beta2=self.beta2,
                    epsilon=epsilon,
                    grad=gradient,
                )


class ConstantScale:
    """A loss scale that stays; 1 for none."""

    skipped = 0

    def __init__(self, scale):
        self._scale = scale

    def initial_values(self):
        """Return an empty list: a constant scale keeps no variable."""
        return ()

    def scale_loss(self, loss):
        """Return the loss that the backward pass starts from."""
        return loss if self._scale == 1 else loss * self._scale

    def update(self, gradients, apply):
        """Call `apply` with the gradients unscaled."""
        apply(gradients if self._scale == 1 else [gradient / self._scale for gradient in gradients])


class DynamicScale:
    """The dynamic scale that keeps fp16 gradients from vanishing: halved where they overflow, doubled in time.

    Keras' policy, in this file because Keras' own works for Keras' optimizers only.
    """

    def __init__(self):
        self.scale = tf.Variable(FIRST_SCALE, trainable=False)
        self.good_steps = tf.Variable(0, trainable=False)
        self.skipped = tf.Variable(0, trainable=False)

    def initial_values(self):
        """Return the variables that steps depend on, each with its value before the first step."""
        return (self.scale, FIRST_SCALE), (self.good_steps, 0)

    def scale_loss(self, loss):
        """Return the loss that the backward pass starts from."""
        return loss * self.scale

    def update(self, gradients, apply):
        """Call `apply` with the gradients unscaled, or skip the step if one of them is not finite."""
        gradients = [gradient / self.scale for gradient in gradients]
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in gradients])

        def good():
            apply(gradients)
            grows = self.good_steps + 1 >= GROWTH_STEPS
            self.scale.assign(tf.where(grows, 2.0 * self.scale, self.scale))
            self.good_steps.assign(tf.where(grows, 0, self.good_steps + 1))
            return tf.constant(0)

        def overflow():
            self.scale.assign(tf.maximum(self.scale / 2.0, 1.0))
            self.good_steps.assign(0)
            return tf.constant(1)

        self.skipped.assign_add(tf.cond(finite, good, overflow))
