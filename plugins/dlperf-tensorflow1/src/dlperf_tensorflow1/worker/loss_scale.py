"""The loss scale of a precision: none, or the dynamic one of mixed precision in float16."""

import tensorflow.compat.v1 as tf

from dlperf_tensorflow1.worker.weights import make_variable

FIRST_SCALE = 2.0**15
GROWTH_STEPS = 2000
"""Good steps after which the scale doubles. It and the first scale are the defaults of TensorFlow's
`DynamicLossScale`."""


class NoScale:
    """No loss scale."""

    skipped = None
    """Variable that counts skipped steps; None: no step is skipped."""

    def state(self):
        """Return the variables that a reset initializes: an empty list."""
        return []

    def scale_loss(self, loss):
        """Return the loss unchanged."""
        return loss

    def update(self, gradients, apply):
        """Return the operation that calls for the update with the gradients divided by the scale.

        Args:
            gradients: The gradients of the scaled loss, the means over all replicas.
            apply: Function of a list of gradients that returns the operation of an update.
        """
        return apply(gradients)


class DynamicScale(NoScale):
    """The scale is halved if a gradient is not finite, and doubled after `GROWTH_STEPS` good steps.

    The policy is that of TensorFlow's `DynamicLossScale`, whose variables cannot be reset. A step with a gradient that
    is not finite updates nothing but the scale.
    """

    def __init__(self):
        self._scale, self._good_steps = make_variable((), FIRST_SCALE), make_variable((), 0, tf.int32)
        self.skipped = make_variable((), 0, tf.int32)
        # Read once in a step, before the update.
        self._value = tf.identity(self._scale)

    def state(self):
        """Return the scale and the count of good steps."""
        return [self._scale, self._good_steps]

    def scale_loss(self, loss):
        """Return the loss, a tensor, times the scale of this step."""
        return loss * self._value

    def update(self, gradients, apply):
        """Return the operation that calls for the update, unless a gradient is not finite, and sets the scale.

        It adds 1 to `skipped` if a gradient is not finite.

        Args:
            gradients: The gradients of the scaled loss, the means over all replicas.
            apply: Function of a list of gradients, those divided by the scale, that returns the operation of an update.
        """
        gradients = [gradient / self._value for gradient in gradients]
        finite = tf.reduce_all(tf.stack([tf.reduce_all(tf.is_finite(gradient)) for gradient in gradients]))

        def proceed():
            good_steps = self._good_steps + 1
            grows = good_steps >= GROWTH_STEPS
            scale = tf.where(grows, 2.0 * self._value, self._value)
            return _after(apply(gradients), self._set(scale, tf.where(grows, 0, good_steps)))

        def skip():
            return _after(self._set(tf.maximum(self._value / 2.0, 1.0), 0), self.skipped.assign_add(1).op)

        return tf.cond(finite, proceed, skip).op

    def _set(self, scale, good_steps):
        return tf.group(self._scale.assign(scale), self._good_steps.assign(good_steps))


def _after(*operations):
    """Return a constant that is there when the operations have run, since `tf.cond` takes tensors."""
    with tf.control_dependencies(operations):
        return tf.constant(0)
