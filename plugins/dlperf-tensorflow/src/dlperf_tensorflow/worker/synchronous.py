"""Replicas that step together: those of this process, in the scope of a strategy that averages their gradients.

A single replica uses TensorFlow's default strategy. `asynchronous.Scheduled` has the same methods for replicas that
servers compute.
"""

import tensorflow as tf

from dlperf_tensorflow.worker import evidence


class MirroredReplicas:
    """A trainer's step over the replicas of this process.

    Args:
        strategy: The `tf.distribute.Strategy`.
        replica_step: Function of a batch and a learning rate that runs the step of one replica and returns its loss.
        kind: The kind of device, `cpu` or `cuda`.
        replicas: Global indices of this process's replicas.
    """

    def __init__(self, strategy, replica_step, kind, replicas):
        self._strategy, self._replica_step = strategy, replica_step
        self._device = "GPU" if kind == "cuda" else "CPU"
        self._first = replicas[0]
        self._train = tf.function(self._one_step, autograph=False)
        self.name = "all_reduce" if strategy.num_replicas_in_sync > 1 else None
        """Name of the strategy in effect; None for a single replica."""

    def place(self, batches):
        """Return the batches, one per replica, on the replicas' devices, as `strategy.run` takes them.

        `batches` has a dictionary for each replica of this process, of arrays or tensors by the input's name. The
        result is such a dictionary: of tensors for one replica, of per-replica values for several.
        """
        placed = []
        for replica, batch in enumerate(batches):
            with tf.device("%s:%d" % (self._device, replica)):
                placed.append({name: tf.identity(value) for name, value in batch.items()})
        if len(placed) == 1:
            return placed[0]
        return self._strategy.experimental_distribute_values_from_function(
            lambda context: placed[context.replica_id_in_sync_group - self._first]
        )

    def step(self, batch, rate):
        """Run one step of all replicas with the learning rate `rate`; return the handle of the replicas' losses.

        `batch` is what `place` returned, and `rate` a number. The handle is a tensor, or a per-replica value if there
        are several replicas.
        """
        return self._train(batch, tf.constant(rate, tf.float32))

    def _one_step(self, batch, rate):
        return self._strategy.run(self._replica_step, (batch, rate))

    def graph(self, batch):
        """Return the graph that `step` runs for a batch of the same shapes and types as `batch`."""
        return self._train.get_concrete_function(batch, tf.constant(0.0)).graph

    def traced_outputs(self, function, batch):
        """Return the tensors of `function(batch)` for each replica of this process, traced into a graph as `step` is.

        They are ordered by output, and for each output by replica. `function` returns a sequence of tensors, and
        `batch` is what `place` returned.
        """
        traced = tf.function(lambda batch: self._strategy.run(function, (batch,)), autograph=False)
        return self._of_all_replicas(traced(batch))

    def plain_outputs(self, function, batch):
        """Return the tensors of `function(batch)` for each replica of this process, run eagerly and without TF32.

        Their order is that of `traced_outputs`.
        """
        with evidence.use_plain_fp32():
            return self._of_all_replicas(self._strategy.run(function, (batch,)))

    def _of_all_replicas(self, outputs):
        return [value for output in outputs for value in self._strategy.experimental_local_results(output)]
