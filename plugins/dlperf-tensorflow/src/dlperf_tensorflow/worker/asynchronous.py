"""Asynchronous training: TensorFlow's ParameterServerStrategy, and the ClusterCoordinator that hands out its functions.

The variables are on the parameter servers, once. A step is one function for each replica: read the variables, compute
the gradients of that replica's canonical shard, update. The functions are handed to whichever worker is free, and none
waits for another: so a replica is a place in every step, with its shard, and not a worker. Every worker holds both
shards.
"""

import numpy as np
import tensorflow as tf

_STATUS = "/proc/self/status"


def join():
    """Return the strategy of this process (TF_CONFIG's chief) and its coordinator; both need all servers."""
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)
    return strategy, tf.distribute.coordinator.ClusterCoordinator(strategy)


def servers(job):
    """Return the names of the CPUs of all servers of a job (`worker`, `ps`), in order."""
    names = [device.name for device in tf.config.list_logical_devices("CPU")]
    return [name for name in names if name.startswith("/job:%s/" % job)]


def read_max_status(name):
    """Return the largest value in bytes of a field of /proc/PID/status over all processes of the cluster.

    The field `name` is `VmHWM`, the peak of used memory, or `VmData`, the allocated memory.
    """
    return max(_status(device.name)[name] for device in tf.config.list_logical_devices("CPU"))


def _status(device):
    """Return sizes in bytes, by name, from the kernel status of the process that has this device."""
    with tf.device(device):
        lines = [line.numpy().decode("ascii", "replace") for line in tf.data.TextLineDataset(_STATUS)]
    fields = (line.partition(":")[::2] for line in lines)
    return {name: int(value.split()[0]) * 1024 for name, value in fields if value.endswith(" kB")}


def address_beside(variable):
    """Return the device scope in which a variable is updated: its own server's."""
    return tf.device(variable.device)


class Scheduled:
    """A trainer's step, as functions for the workers.

    `replica_step(batch, rate)` is what one replica does in a step; it gives the loss. `shards` are the
    replicas' canonical batches, each a dict of arrays.
    """

    name = "parameter_server_async"
    """Of the strategy in effect."""

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
        """Return None, whatever the batches: the workers hold the canonical shards."""

    def step(self, batch, rate):
        """Schedule one function per replica; the handle is a list of TensorFlow's RemoteValues, the losses.

        `batch` is None. Each function updates with its share of the rate: together they weigh what one update with the
        mean of the gradients does.
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
        """Return the graph that the workers run; None before the first step. `batch` is not used."""
        return self._graph

    def traced_outputs(self, function, batch):
        """Return the tensors that a function of a batch gives for the replicas' shards."""
        traced = tf.function(
            lambda iterator, shard: function(_select_shard(iterator, shard)), autograph=False
        )
        scheduled = [self._coordinator.schedule(traced, (self._iterator, shard)) for shard in self._shards]
        self._coordinator.join()
        return [output for remote in scheduled for output in remote.get()]

    plain_outputs = traced_outputs
    """The workers run no eager code, and compute a graph."""


def _select_shard(iterator, shard):
    """Return the batch of one shard from the worker's memory."""
    return {name: value[shard] for name, value in iterator.get_next().items()}
