"""Asynchronous training: TensorFlow's ParameterServerStrategy and ClusterCoordinator.

The parameter servers hold the only copy of the variables. A step is one function per replica: read the variables,
compute the gradients of that replica's canonical shard, update. The coordinator hands each function to a free worker,
and none waits for another. So a replica is a shard of every step, and not a certain worker; every worker holds all
shards.
"""

import numpy as np
import tensorflow as tf

_STATUS = "/proc/self/status"


def join():
    """Wait for all servers; return a pair of a ParameterServerStrategy and its ClusterCoordinator.

    The variable TF_CONFIG must name this process as the chief.
    """
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    return strategy, tf.distribute.coordinator.ClusterCoordinator(strategy)


def servers(job):
    """Return a list of the CPUs of all servers of one kind: device names in TensorFlow's order; empty without servers.

    `job` is the kind: `worker` for computing servers, or `ps` for parameter servers.
    """
    names = [device.name for device in tf.config.list_logical_devices("CPU")]
    return [name for name in names if name.startswith("/job:%s/" % job)]


def read_max_status(name):
    """Return the largest value, in bytes, of a field of /proc/PID/status over all processes of the cluster.

    `name` is the field, such as `VmHWM`, the peak of used memory, or `VmData`, the allocated memory. This waits until
    all servers have answered.

    Raises:
        KeyError: The status of a process has no size with this name.
    """
    return max(_status(device.name)[name] for device in tf.config.list_logical_devices("CPU"))


def _status(device):
    """Return sizes in bytes, by name, from the kernel status of the process that has this device."""
    with tf.device(device):
        lines = [line.numpy().decode("ascii", "replace") for line in tf.data.TextLineDataset(_STATUS)]
    fields = (line.partition(":")[::2] for line in lines)
    return {name: int(value.split()[0]) * 1024 for name, value in fields if value.endswith(" kB")}


def place_beside(variable):
    """Return a context manager: it places operations on the parameter server that holds `variable`, a `tf.Variable`."""
    return tf.device(variable.device)


class Scheduled:
    """A trainer's step as one function per replica, which the workers (TensorFlow's computing servers) execute.

    It has the methods of `synchronous.MirroredReplicas`.

    Args:
        coordinator: TensorFlow's ClusterCoordinator.
        replica_step: Function of a batch and a learning rate that runs the step of one replica and returns its loss.
        shards: List of the canonical batch of each replica: a dict from input name to NumPy array.
    """

    name = "parameter_server_async"
    """Name of the strategy in effect."""

    def __init__(self, coordinator, replica_step, shards):
        self._coordinator, self._replica_step = coordinator, replica_step
        stacked = {name: tf.constant(np.stack([shard[name] for shard in shards])) for name in shards[0]}
        # The coordinator would hand a plain function to AutoGraph, whose file stays if this process is killed.
        dataset = tf.function(lambda: tf.data.Dataset.from_tensors(stacked).repeat(), autograph=False)
        self._iterator = iter(coordinator.create_per_worker_dataset(dataset))
        self._shards = [tf.constant(index) for index in range(len(shards))]
        self._train = tf.function(self._one_step, autograph=False)
        self._rate = None, None
        self._graph = None

    def place(self, batches):
        """Return None; `batches` is not used, because the computing servers hold the canonical shards."""

    def step(self, batch, rate):
        """Schedule one function per replica; return a list of RemoteValues, the losses in the order of the replicas.

        Each function updates the weights with the learning rate `rate`, a number, divided by the number of replicas, so
        that the updates of one step together have the size of one update with the mean gradient. `batch` is not used.
        """
        share = rate / len(self._shards)
        if share != self._rate[0]:
            self._rate = share, tf.constant(share, tf.float32)
        return [
            self._coordinator.schedule(self._train, (self._iterator, shard, self._rate[1]))
            for shard in self._shards
        ]

    def _one_step(self, iterator, shard, rate):
        self._graph = tf.compat.v1.get_default_graph()
        return self._replica_step(_select_shard(iterator, shard), rate)

    def graph(self, batch):
        """Return the `tf.Graph` that computing servers run in a step; None before the first. `batch` is not used."""
        return self._graph

    def traced_outputs(self, function, batch):
        """Return a list of the tensors that `function` returns for the canonical shards of all replicas.

        All tensors of the first replica come first, then those of the next. `function` takes a batch, a dict from input
        name to tensor, and returns a sequence of tensors. The computing servers run it as a graph, and this method
        waits for them. `batch` is not used.
        """
        traced = tf.function(
            lambda iterator, shard: function(_select_shard(iterator, shard)), autograph=False
        )
        scheduled = [self._coordinator.schedule(traced, (self._iterator, shard)) for shard in self._shards]
        self._coordinator.join()
        return [output for remote in scheduled for output in remote.get()]

    plain_outputs = traced_outputs
    """The same, since the workers run no eager code."""


def _select_shard(iterator, shard):
    """Return the batch of one shard from the worker's memory."""
    return {name: value[shard] for name, value in iterator.get_next().items()}
