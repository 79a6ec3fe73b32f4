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
        replicas: Sequence of the global indices of this process's replicas.
    """

    def __init__(self, strategy, replica_step, kind, replicas):
        self._strategy, self._replica_step = strategy, replica_step
        self._device = "GPU" if kind == "cuda" else "CPU"
        self._first = replicas[0]
        self._train = tf.function(self._one_step, autograph=False)
        self.name = "all_reduce" if strategy.num_replicas_in_sync > 1 else None
        """Name of the strategy in effect; None for a single replica."""

    def place(self, batches):
        """Return one batch for `strategy.run`, a dict from input name to value on the replicas' devices.

        A value is a tensor if the process has one replica, else a per-replica value of `tf.distribute`. `batches` has
        one dict per replica of this process, in order: the input's name → an array or a tensor.
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
        """Run one step of all replicas with the learning rate `rate`, a number; return the losses of the replicas.

        `batch` is what `place` returned. The losses are a scalar tensor, or a per-replica value of `tf.distribute` if
        the process has several replicas.
        """
        return self._train(batch, tf.constant(rate, tf.float32))

    def _one_step(self, batch, rate):
        return self._strategy.run(self._replica_step, (batch, rate))

    def graph(self, batch):
        """Return the `tf.Graph` that `step` runs for a batch with the shapes and types of `batch`.

        `batch` is what `place` returned.
        """
        return self._train.get_concrete_function(batch, tf.constant(0.0)).graph

    def traced_outputs(self, function, batch):
        """Return a list of the tensors of `function(batch)` for all replicas of this process, traced into a graph.

        The tensors of all replicas for the first output come first, then those for the next. `function` takes one
        replica's batch, a dict from input name to tensor, and returns a sequence of tensors. `batch` is what `place`
        returned.
        """
        traced = tf.function(lambda batch: self._strategy.run(function, (batch,)), autograph=False)
        return self._of_all_replicas(traced(batch))

    def plain_outputs(self, function, batch):
        """Return a list of the tensors of `function(batch)` for all replicas, run eagerly and without TF32.

        The tensors of all replicas for the first output come first, then those for the next. `function` takes one
        replica's batch, a dict from input name to tensor, and returns a sequence of tensors. `batch` is what `place`
        returned.
        """
        with evidence.use_plain_fp32():
            return self._of_all_replicas(self._strategy.run(function, (batch,)))

    def _of_all_replicas(self, outputs):
        return [value for output in outputs for value in self._strategy.experimental_local_results(output)]
