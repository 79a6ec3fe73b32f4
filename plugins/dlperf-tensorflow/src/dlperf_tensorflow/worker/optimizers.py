"""The models' optimizers in TensorFlow's fused kernels, and the loss scale of fp16.

All of this runs in a replica's context, on that replica's copy of each variable.
"""

import numpy as np
import tensorflow as tf

FIRST_SCALE = 2.0**15
GROWTH_STEPS = 2000
"""Good steps after which the scale doubles. It and the first scale are the defaults of Keras'
`LossScaleOptimizer`."""


def optimizer_for(numbers, variables, decays, place_near):
    """Return a `Momentum` or `AdamW` of this module with the request's hyperparameters.

    Its moments are created in the scope of the current strategy.

    Args:
        numbers: `Request.optimizer`: a dict of the kind, `sgd` or `adamw`, and its hyperparameters.
        variables: List of the trainable variables, in float32.
        decays: List with True for each variable that has weight decay, else False.
        place_near: Function of a variable that returns the context manager in which the variable is updated, such as
            `asynchronous.place_beside`.

    Raises:
        ValueError: The kind of optimizer is neither `sgd` nor `adamw`.
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
    """SGD with momentum and weight decay w: g ← g + w·θ;  v ← momentum·v + g;  θ ← θ - rate·v.

    Args:
        numbers: `Request.optimizer`: a dict of hyperparameters.
        variables: List of the trainable variables, in float32.
        decays: List with True for each variable that has weight decay, else False.
        place_near: Function of a variable that returns the context manager in which the variable is updated, such as
            `asynchronous.place_beside`.
    """

    def __init__(self, numbers, variables, decays, place_near):
        self.momentum, self.variables, self._place_near = numbers["momentum"], variables, place_near
        self.decays = [numbers["weight_decay"] * decay for decay in decays]
        self.velocities = self.moments = _zeros_like(variables)
        self.steps = None
        """None: nothing counts the updates."""

    def initial_values(self):
        """Yield (variable, 0.0) for each velocity: 0.0 is the value of all elements before the first step."""
        return ((variable, 0.0) for variable in self.moments)

    def apply(self, gradients, rate):
        """Update all trainable variables and velocities once.

        `gradients` is a list of tensors in the order of the variables. `rate` is the learning rate, a scalar tensor.
        """
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
    """Adam with decoupled weight decay w: θ ← θ - rate · (m̂ / (√v̂ + ε) + w·θ).

    Here m ← β₁·m + (1 - β₁)·g and v ← β₂·v + (1 - β₂)·g²; m̂ and v̂ are corrected for bias. TensorFlow's kernel adds ε
    to √v before the bias correction; with ε·√(1 - β₂ᵗ) in place of ε, it computes this formula. The kernel rounds β₁
    and β₂ to float32, so the bias corrections are computed from the rounded values.

    Args:
        numbers: `Request.optimizer`: a dict of hyperparameters.
        variables: List of the trainable variables, in float32.
        decays: List with True for each variable that has weight decay, else False.
        place_near: Function of a variable that returns the context manager in which the variable is updated, such as
            `asynchronous.place_beside`.
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
        """Yield (variable, 0.0) for each moment, and for the count of updates.

        0.0 is the value of all elements of the variable before the first step.
        """
        return ((variable, 0.0) for variable in (*self.moments, self.steps))

    def apply(self, gradients, rate):
        """Update all trainable variables, their moments and the count of updates once.

        `gradients` is a list of tensors in the order of the variables. `rate` is the learning rate, a scalar tensor.
        """
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
    """A constant loss scale, the number `scale`; 1 changes nothing. `skipped`, the number of skipped steps, is 0."""

    skipped = 0

    def __init__(self, scale):
        self._scale = scale

    def initial_values(self):
        """Return an empty tuple: a constant scale has no variable."""
        return ()

    def scale_loss(self, loss):
        """Return `loss`, a scalar tensor, times the scale."""
        return loss if self._scale == 1 else loss * self._scale

    def update(self, gradients, apply):
        """Divide `gradients`, a list of tensors, by the scale, and call `apply` with the list of the results."""
        apply(gradients if self._scale == 1 else [gradient / self._scale for gradient in gradients])


class DynamicScale:
    """The dynamic loss scale of fp16: halved if a gradient is not finite, doubled after `GROWTH_STEPS` finite steps.

    The policy is Keras', whose own class works for Keras' optimizers only. The variable `skipped` counts skipped steps.
    """

    def __init__(self):
        self.scale = tf.Variable(FIRST_SCALE, trainable=False)
        self.good_steps = tf.Variable(0, trainable=False)
        self.skipped = tf.Variable(0, trainable=False)

    def initial_values(self):
        """Return two pairs (variable, value before the first step).

        The first is of the scale, the second of the number of steps since it last changed.
        """
        return (self.scale, FIRST_SCALE), (self.good_steps, 0)

    def scale_loss(self, loss):
        """Return `loss`, a scalar tensor, times the scale of this step."""
        return loss * self.scale

    def update(self, gradients, apply):
        """Divide `gradients` by the scale, and call `apply` with the list of the results if all are finite.

        Then set the scale for the next step, and add 1 to `skipped` if `apply` was not called. `gradients` is a list of
        tensors.
        """
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
