"""The loss scale of a precision: none, or the dynamic one of mixed precision in float16."""

import tensorflow.compat.v1 as tf

from dlperf_tensorflow1.worker.weights import make_variable

FIRST_SCALE = 2.0**15
GROWTH_STEPS = 2000
"""Good steps after which the scale doubles. It and the first scale are the defaults of TensorFlow's
`DynamicLossScale`."""


class NoScale:
    """The loss scale 1, for precisions that need no loss scale."""

    skipped = None
    """Variable that counts skipped steps; None: no step is skipped."""

    def state(self):
        """Return the variables that a reset initializes: an empty list, as there are none."""
        return []

    def scale_loss(self, loss):
        """Return `loss`, a scalar tensor, unchanged."""
        return loss

    def update(self, gradients, apply):
        """Add the update with the gradients to the graph, and return its operation.

        Args:
            gradients: List of the gradients of the loss, the means over all replicas.
            apply: Function that adds an update with a list of gradients to the graph, and returns its operation.
        """
        return apply(gradients)


class DynamicScale(NoScale):
    """A loss scale that is halved if a gradient is not finite, and doubled after `GROWTH_STEPS` finite steps.

    The policy is that of TensorFlow's `DynamicLossScale`, whose variables cannot be reset. A step with a gradient that
    is not finite updates nothing but the scale.
    """

    def __init__(self):
        self._scale, self._good_steps = make_variable((), FIRST_SCALE), make_variable((), 0, tf.int32)
        self.skipped = make_variable((), 0, tf.int32)
        # Read once in a step, before the update.
        self._value = tf.identity(self._scale)

    def state(self):
        """Return a list of two variables: the scale, and the number of steps since it last changed."""
        return [self._scale, self._good_steps]

    def scale_loss(self, loss):
        """Return `loss`, a scalar tensor, times the scale of this step."""
        return loss * self._value

    def update(self, gradients, apply):
        """Add the update with the gradients divided by the scale, and the scale's change; return the last operation.

        If a gradient is not finite, this operation updates no weights, and adds 1 to `skipped`.

        Args:
            gradients: List of the gradients of the scaled loss, the means over all replicas.
            apply: Function that adds an update with a list of gradients to the graph, and returns its operation.
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
