"""The exchange of gradients alone: the all-reduce of a step, in a separate graph."""

import numpy as np
import tensorflow as tf

from dlperf_sdk.worker.exchange import Buffer, GradientExchange


class AllReduceExchange(GradientExchange):
    """Tensors of the gradients' shapes and types in every replica, averaged as in a step.

    Args:
        runtime: The `TensorFlowRuntime`.
        trained: List of the variables whose gradients are exchanged, in the order of a step.
        place: Function that takes a list with a dict of tensors for each replica, and returns one dict for
            `strategy.run`, with the values on the replicas' devices.
    """

    def __init__(self, runtime, trained, place):
        self._strategy, self._communication, self._place = runtime.strategy, runtime.communication(), place
        self._shapes = {str(number): (value.shape, value.dtype) for number, value in enumerate(trained)}
        self._smallest = min(self._shapes, key=lambda name: self._shapes[name][0].num_elements())
        self._average = tf.function(self._average_all, autograph=False)
        self._gradients = None

    def _average_all(self, gradients):
        return self._strategy.run(self._average_in_replica, (gradients,))

    def _average_in_replica(self, gradients):
        context = tf.distribute.get_replica_context()
        # Arguments of a graph have no device, by which the strategy finds the replicas.
        values = [tf.identity(value) for value in gradients.values()]
        return dict(
            zip(gradients, context.all_reduce(tf.distribute.ReduceOp.MEAN, values, self._communication))
        )

    def run(self):
        """Enqueue the averaging of all tensors over the replicas; return the averaged tensor with the fewest elements.

        The result is for `Runtime.wait`. If the process has several replicas, it is a per-replica value of
        `tf.distribute`.
        """
        self._gradients = self._average(self._gradients)
        return self._gradients[self._smallest]

    def fill(self, values):
        """Set all elements of each replica's tensors to one value.

        `values` has one number per replica of this process, in their order.
        """
        self._gradients = self._place(
            [
                {
                    name: tf.fill(shape, tf.cast(value, dtype)) if shape.rank else tf.cast(value, dtype)
                    for name, (shape, dtype) in self._shapes.items()
                }
                for value in values
            ]
        )

    def read(self, replica):
        """Yield a `Buffer` for each tensor of one replica, with its values widened to float32.

        A buffer's name is `gradient N` with the number N of the tensor, from 0. `replica` is the replica's index within
        this process, from 0.
        """
        for name, gradient in self._gradients.items():
            value = self._strategy.experimental_local_results(gradient)[replica].numpy()
            yield Buffer("gradient %s" % name, value.astype(np.float32), value.nbytes)
