"""Gradient synchronization in TensorFlow 1: collectives, accumulators on parameter servers, or Horovod."""

import itertools
from collections import namedtuple

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python.ops import collective_ops

from dlperf_sdk.worker.exchange import Buffer, GradientExchange
from dlperf_sdk.worker.unsupported import look_up
from dlperf_tensorflow1.worker.weights import initial_value, make_variable

NEVER_STALE = 2**62
"""Local step of a gradient that an accumulator takes, whatever its own step is."""


class Alone:
    """No synchronization of gradients, for one replica or the strategy `independent`; the base of the other strategies.

    Args:
        runtime: The `TensorFlow1Runtime`.
    """

    copies = ()
    """Operations that set the parameters that the network reads to those that the optimizer updates, if these are
    other variables."""

    def __init__(self, runtime):
        self._runtime = runtime

    def place(self, number):
        """Return the name of the device for the variable from which the network reads a parameter.

        `number` is the parameter's number in the manifest, from 0.
        """
        return self._runtime.place(number)

    def make_updated(self, weights):
        """Return an object with two dicts: `variables`, which the optimizer updates, and `scopes`, their devices.

        The keys of both are the parameters' names in the manifest. Here, the object is `weights`: the `Weights` that
        the network reads. The network's graph must be complete.
        """
        return weights

    def add_update(self, gradients, update):
        """Add the update of the weights with `gradients` to the graph; return its operation.

        Args:
            gradients: List of this replica's gradients, a tensor per parameter. A subclass averages them first.
            update: Function that adds an update with a list of mean gradients to the graph, and returns its operation.
        """
        return update(gradients)

    def wait_for_all(self):
        """Wait until all replicas that share variables have called this; here, return at once: none are shared."""


class Averaging(Alone):
    """The base of strategies by which each replica updates its own weights with the mean gradients of all replicas.

    A subclass implements `average`.

    Args:
        runtime: The `TensorFlow1Runtime`.
    """

    def average(self, gradients):
        """Return a list of the means of `gradients`, a list of tensors, over all replicas; a subclass implements this.

        All replicas must make their calls in the same order, so that the n-th calls belong together.

        Raises:
            NotImplementedError: The subclass does not implement it.
        """
        raise NotImplementedError

    def add_update(self, gradients, update):
        """Add the update of this replica's weights with the mean gradients of all replicas; return its operation.

        Args:
            gradients: List of this replica's gradients, a tensor per parameter.
            update: Function that adds an update with a list of mean gradients to the graph, and returns its operation.
        """
        return update(self.average(gradients))


class AllReduce(Averaging):
    """One all-reduce of all elements of the gradients, by TensorFlow's collectives over gRPC rings.

    Args:
        runtime: The `TensorFlow1Runtime`.
    """

    def __init__(self, runtime):
        super().__init__(runtime)
        self._keys = itertools.count(1)

    def average(self, gradients):
        """Return a list of the means of `gradients`, a list of tensors, over all replicas.

        All replicas must make their calls in the same order, so that the n-th calls belong together.
        """
        flat = tf.concat([tf.reshape(gradient, (-1,)) for gradient in gradients], 0)
        mean = collective_ops.all_reduce(flat, self._runtime.replicas, 1, next(self._keys), "Add", "Div", [0])
        parts = tf.split(mean, [gradient.shape.num_elements() for gradient in gradients])
        return [tf.reshape(part, gradient.shape) for part, gradient in zip(parts, gradients)]


class ParameterServers(Alone):
    """Accumulators on the parameter servers, as in SyncReplicasOptimizer; replica 0 requests each update.

    After the update, each replica takes a token from a queue of its own. With SyncReplicasOptimizer's one queue, a fast
    replica can take two tokens of one step.

    Args:
        runtime: The `TensorFlow1Runtime`.
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
        """Add operations that send the gradients and wait for the servers' update; return the last operation.

        The update uses the means over all replicas.

        Args:
            gradients: List of this replica's gradients, a tensor per parameter.
            update: Function that adds an update with a list of mean gradients to the graph, and returns its operation.
        """
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
        """Wait until all replicas have called this method."""
        self._runtime.session.run(self._barrier)


class DistributedReplicated(ParameterServers):
    """Parameter servers, and a copy of the parameters on each replica's device, which the network reads.

    A step ends when the replica has renewed its copies from the servers, as in tf_cnn_benchmarks. There, each worker's
    gradients are an update of their own; here, a step has one update, with the mean gradients of all replicas.

    Args:
        runtime: The `TensorFlow1Runtime`.
    """

    def place(self, number):
        """Return the name of this replica's device; `number` is not used."""
        return self._runtime.device

    def make_updated(self, weights):
        """Make variables on the servers, one per parameter, for the optimizer to update; return them as a `Served`.

        A `Served` has two dicts, `variables` and `scopes`, from a parameter's name in the manifest to its variable and
        to the device of the variable. `weights` are the `Weights` that the network reads: the copies on this replica's
        device. The attribute `copies` is set to the operations that set these copies to the servers' variables.
        """
        names = [entry["name"] for entry in self._runtime.request.parameters]
        scopes = {name: self._runtime.place(number) for number, name in enumerate(names)}
        variables = {}
        for name, copy in weights.variables.items():
            with tf.device(scopes[name]):
                variables[name] = make_variable(copy.shape)
        self._pairs = [(copy, variables[name]) for name, copy in weights.variables.items()]
        self.copies = self._renew()
        return Served(variables, scopes)

    def add_update(self, gradients, update):
        """Add the operations of `ParameterServers.add_update` and the renewal of the copies; return the last operation.

        Args:
            gradients: List of this replica's gradients, a tensor per parameter.
            update: Function that adds an update with a list of mean gradients to the graph, and returns its operation.
        """
        with tf.control_dependencies([super().add_update(gradients, update)]):
            return tf.group(*self._renew())

    def _renew(self):
        """Return operations that set each copy to the value that its parameter on the servers has when they run."""
        return [copy.assign(served.read_value()).op for copy, served in self._pairs]


Served = namedtuple("Served", "variables scopes")
"""Parameters on the servers: parameter → its variable, and the scope of the device that holds it."""


class Horovod(Averaging):
    """An all-reduce of each gradient by Horovod, which fuses those that are ready; each replica updates its weights.

    Args:
        runtime: The `TensorFlow1Runtime`.
    """

    def average(self, gradients):
        """Return a list of the means of `gradients`, a list of tensors, over all replicas."""
        import horovod.tensorflow as hvd

        return [hvd.allreduce(gradient, op=hvd.Average) for gradient in gradients]


EXCHANGES = {
    "all_reduce": AllReduce,
    "parameter_server": ParameterServers,
    "distributed_replicated": DistributedReplicated,
    "horovod": Horovod,
}


class VariableExchange(GradientExchange):
    """Variables with the gradients' shapes, which a session sets to their means over all replicas.

    Args:
        runtime: The `TensorFlow1Runtime`, whose session runs the exchange.
        average: Function of a list of tensors that returns their means over all replicas, as a step computes them.
        shapes: Dict: a parameter's name → the shape of its gradient, a `tf.TensorShape`.
    """

    def __init__(self, runtime, average, shapes):
        self._session = runtime.session
        with runtime.graph.as_default(), tf.device(runtime.device):
            self._gradients = {name: make_variable(shape) for name, shape in shapes.items()}
            variables = self._gradients.values()
            means = average([variable.read_value() for variable in variables])
            self._average = tf.group(*(variable.assign(mean) for variable, mean in zip(variables, means)))

    def run(self):
        """Set all variables to their means over all replicas, and return when this has finished."""
        self._session.run(self._average)

    def fill(self, values):
        """Set all elements of the variables to `values[0]`, the value of this process's one replica."""
        feed = {
            initial_value(variable): np.full(variable.shape.as_list(), values[0], np.float32)
            for variable in self._gradients.values()
        }
        self._session.run([variable.initializer for variable in self._gradients.values()], feed)

    def read(self, replica):
        """Yield a `Buffer` for each variable, in the order of the exchange, with its float32 values.

        `replica` is not used: a process has one replica.
        """
        for name, values in self._session.run(self._gradients).items():
            yield Buffer("gradient " + name, values, values.nbytes)


def make_exchange(runtime):
    """Return the object that synchronizes gradients by the strategy of the runtime's request, in the default graph.

    It is an `Alone` if replicas do not synchronize. `runtime` is a `TensorFlow1Runtime`.

    Raises:
        Unsupported: The strategy synchronizes gradients, and the plugin does not have it.
    """
    if not runtime.syncs_gradients:
        return Alone(runtime)
    return look_up("strategy", runtime.request.strategy, EXCHANGES)(runtime)
