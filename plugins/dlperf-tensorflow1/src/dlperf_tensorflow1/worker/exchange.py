"""Gradient synchronization in TensorFlow 1: collectives between the trainers."""

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import collective_ops

from dlperf_sdk.worker.unsupported import look_up


class Alone:
    """No synchronization: one replica, or the strategy `independent`."""

    def __init__(self, runtime):
        self._runtime = runtime

    def add_update(self, gradients, update):
        """Return the operation that calls for the update of the weights with the mean gradients.

        Args:
            gradients: This replica's gradients, a tensor per parameter.
            update: Function that returns the operation of an update with a list of mean gradients.
        """
        return update(gradients)


class AllReduce(Alone):
    """One collective all-reduce of all elements, over gRPC rings; each replica updates its own weights."""

    def add_update(self, gradients, update):
        """Return the operation of this replica's update with the mean gradients of all replicas."""
        flat = tf.concat([tf.reshape(gradient, (-1,)) for gradient in gradients], 0)
        mean = collective_ops.all_reduce(flat, self._runtime.replicas, 1, 1, "Add", "Div", [0])
        parts = tf.split(mean, [gradient.shape.num_elements() for gradient in gradients])
        return update([tf.reshape(part, gradient.shape) for part, gradient in zip(parts, gradients)])


EXCHANGES = {"all_reduce": AllReduce}


def make_exchange(runtime):
    """Return the exchange of the runtime's strategy, in the default graph.

    Raises:
        Unsupported: the strategy has no exchange.
    """
    if not runtime.syncs_gradients:
        return Alone(runtime)
    return look_up("strategy", runtime.request.strategy, EXCHANGES)(runtime)
