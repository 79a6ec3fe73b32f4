"""Gradient synchronization in TensorFlow 1: collectives between the trainers, or accumulators on parameter servers."""

import itertools

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.ops import collective_ops

from dlperf_sdk.worker.exchange import Buffer, GradientExchange
from dlperf_sdk.worker.unsupported import look_up
from dlperf_tensorflow1.worker.weights import initial_value, make_variable

NEVER_STALE = 2**62
"""Local step of a gradient that an accumulator takes, whatever its own step is."""


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

    def wait_for_all(self):
        """Wait until all replicas that share variables have called this; here there are none."""


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


class ParameterServers(Alone):
    """Accumulators on the servers, as in SyncReplicasOptimizer; replica 0 requests each update.

    After the update, each replica takes a token from a queue of its own. With SyncReplicasOptimizer's one queue, a
    fast replica can take two tokens of one step.
    """

    def __init__(self, runtime):
        super().__init__(runtime)
        replicas = range(runtime.replicas)
        with tf.device(runtime.place(0)):
            self._tokens = [tf.FIFOQueue(-1, tf.int32, ((),), shared_name="token-%d" % i) for i in replicas]
            arrivals = [tf.FIFOQueue(-1, tf.int32, ((),), shared_name="arrival-%d" % i) for i in replicas]
            with tf.control_dependencies([queue.enqueue(0) for queue in arrivals]):
                self._barrier = arrivals[runtime.replica].dequeue_many(runtime.replicas).op

    def add_update(self, gradients, update):
        """Return the operation that sends the gradients, and waits for the update with the mean of all replicas."""
        runtime, means, sent = self._runtime, [], []
        for number, gradient in enumerate(gradients):
            with tf.device(runtime.place(number)):
                accumulator = tf.ConditionalAccumulator(
                    tf.float32, gradient.shape, shared_name="gradient-%d" % number
                )
                sent.append(accumulator.apply_grad(gradient, tf.constant(NEVER_STALE, tf.int64)))
                if runtime.replica == 0:
                    mean = accumulator.take_grad(runtime.replicas)
                    mean.set_shape(gradient.shape)
                    means.append(mean)
        with tf.device(runtime.place(0)):
            if runtime.replica == 0:
                with tf.control_dependencies([update(means)]):
                    sent += [queue.enqueue(0) for queue in self._tokens]
            with tf.control_dependencies(sent):
                return self._tokens[runtime.replica].dequeue().op

    def wait_for_all(self):
        """Wait until all replicas have called this."""
        self._runtime.session.run(self._barrier)


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


EXCHANGES = {"all_reduce": AllReduce, "parameter_server": ParameterServers}


def make_exchange(runtime):
    """Return the exchange of the runtime's strategy, in the default graph.

    Raises:
        Unsupported: the strategy has no exchange.
    """
    if not runtime.syncs_gradients:
        return Alone(runtime)
    return look_up("strategy", runtime.request.strategy, EXCHANGES)(runtime)
