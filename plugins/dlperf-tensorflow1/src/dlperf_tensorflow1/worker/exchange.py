"""Gradient synchronization in TensorFlow 1: collectives between the trainers."""

import itertools

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.ops import collective_ops

from dlperf_sdk.worker.exchange import Buffer, GradientExchange
from dlperf_sdk.worker.unsupported import look_up
from dlperf_tensorflow1.worker.weights import initial_value, make_variable


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

    def __init__(self, runtime):
        super().__init__(runtime)
        self._keys = itertools.count(1)

    def average(self, values):
        """Return the mean of a vector over all replicas; all of them call this in the same order."""
        return collective_ops.all_reduce(
            values, self._runtime.replicas, 1, next(self._keys), "Add", "Div", [0]
        )

    def add_update(self, gradients, update):
        """Return the operation of this replica's update with the mean gradients of all replicas."""
        flat = tf.concat([tf.reshape(gradient, (-1,)) for gradient in gradients], 0)
        parts = tf.split(self.average(flat), [gradient.shape.num_elements() for gradient in gradients])
        return update([tf.reshape(part, gradient.shape) for part, gradient in zip(parts, gradients)])


class VectorExchange(GradientExchange):
    """The average of one vector with as many elements as the gradients have together.

    Args:
        runtime: The runtime, whose session runs it.
        average: Function of a vector that returns its mean over all replicas.
        elements: Number of elements.
    """

    def __init__(self, runtime, average, elements):
        self._session = runtime.session
        with runtime.graph.as_default(), tf.device(runtime.device):
            self._vector = make_variable((elements,))
            self._average = self._vector.assign(average(self._vector.read_value())).op

    def run(self):
        """Average the vector."""
        self._session.run(self._average)

    def fill(self, values):
        """Set all elements to `values[0]`, the value of this process's one replica."""
        filled = np.full(self._vector.shape.as_list(), values[0], np.float32)
        self._session.run(self._vector.initializer, {initial_value(self._vector): filled})

    def read(self, replica):
        """Yield the vector of this process's one replica; `replica` is not used."""
        values = self._session.run(self._vector.read_value())
        yield Buffer("gradients", values, values.nbytes)


EXCHANGES = {"all_reduce": AllReduce}


def make_exchange(runtime):
    """Return the exchange of the runtime's strategy, in the default graph.

    Raises:
        Unsupported: the strategy has no exchange.
    """
    if not runtime.syncs_gradients:
        return Alone(runtime)
    return look_up("strategy", runtime.request.strategy, EXCHANGES)(runtime)
