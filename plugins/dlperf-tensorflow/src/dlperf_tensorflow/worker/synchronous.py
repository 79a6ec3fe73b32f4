"""Replicas that step together: those of this process, in the scope of a strategy that averages their gradients.

One replica alone is the same, with TensorFlow's default strategy. `asynchronous.Scheduled` has the same methods, for
replicas that servers compute.
"""

import tensorflow as tf

from dlperf_tensorflow.worker import evidence


class MirroredReplicas:
    """A trainer's step, over the replicas of this process.

    `replica_step(batch, rate)` is what one replica does in a step; it gives the loss. `kind` is their devices' (`cpu`,
    `cuda`), `replicas` their global indices.
    """

    def __init__(self, strategy, replica_step, kind, replicas):
        self._strategy, self._replica_step = strategy, replica_step
        self._device = "GPU" if kind == "cuda" else "CPU"
        self._first = replicas[0]
        self._train = tf.function(self._one_step, autograph=False)
        self.name = "all_reduce" if strategy.num_replicas_in_sync > 1 else None
        """Of the strategy in effect."""

    def place(self, batches):
        """Return one batch per replica, each on its replica's device, as `strategy.run` takes them."""
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
        """Run one step of all replicas with a learning rate; return the handle of a loss per replica."""
        return self._train(batch, tf.constant(rate, tf.float32))

    def _one_step(self, batch, rate):
        return self._strategy.run(self._replica_step, (batch, rate))

    def graph(self, batch):
        """Return the graph that `step` runs for such a batch."""
        return self._train.get_concrete_function(batch, tf.constant(0.0)).graph

    def traced_outputs(self, function, batch):
        """Return the tensors that a function of a batch gives for all replicas, traced as `step` is."""
        traced = tf.function(lambda batch: self._strategy.run(function, (batch,)), autograph=False)
        return self._of_all_replicas(traced(batch))

    def plain_outputs(self, function, batch):
        """Return the outputs of `function` for all replicas' batches, run eagerly in float32 without TF32."""
        with evidence.use_plain_fp32():
            return self._of_all_replicas(self._strategy.run(function, (batch,)))

    def _of_all_replicas(self, outputs):
        return [value for output in outputs for value in self._strategy.experimental_local_results(output)]
