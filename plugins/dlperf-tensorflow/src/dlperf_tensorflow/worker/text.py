"""The data source `text` through tf.data, whose threads read the prepared arrays."""

import tensorflow as tf

from dlperf_sdk.worker.loading import TokenArrays


def load_text(trainer):
    """Start a pipeline of prepared token arrays for each replica; return an endless iterator over batches.

    `trainer` is a `TensorFlowTrainer`. The batches are what the trainer's `place` returns, on the devices.

    Raises:
        DataError: The prepared data is missing, or is not what the controller prepared. The iterator's `next()` raises
            a DataError, too.
    """
    return trainer.load(TokenPipeline)


class TokenPipeline(TokenArrays):
    """The prepared token arrays as a tf.data pipeline, for `loading.Loader`.

    A batch is a dict from input name to tensor (B, …), of the types in the request.

    Args:
        request: The `Request`, whose `data` names the index file of the arrays.
        replica: The replica's global index.
        layout: Not used.

    Raises:
        DataError: The index file or an array is missing, malformed, or not the one that the controller prepared.
    """

    def __init__(self, request, replica, layout):
        super().__init__(request, replica, layout)
        self.signature = tf.TensorSpec((request.batch_size,), tf.int64)

    def keys_of(self, draws):
        """Return the list of the sample indices of a batch; `draws` is the list of the batch's pairs (draw, sample)."""
        return [sample for _, sample in draws]

    def pipeline(self, keys, workers):
        """Return a `tf.data.Dataset` of batches, in the order of `keys`.

        `keys` is a `tf.data.Dataset` of lists as `keys_of` returns them; `workers` is the number of batches that are
        read in parallel.
        """
        return keys.map(self._load, workers)

    def _load(self, samples):
        inputs = self.request.inputs
        types = [entry["dtype"] for entry in inputs]
        values = tf.numpy_function(self._rows, [samples], types, stateful=False)
        return {
            entry["name"]: tf.ensure_shape(value, (self.request.batch_size, *entry["shape"]))
            for entry, value in zip(inputs, values)
        }

    def _rows(self, samples):
        return list(self.batch([(0, sample) for sample in samples]).values())

    def explain(self, draws, error):
        """Return the message for a batch that failed with `error`, TensorFlow's exception; `draws` is not used."""
        return "The prepared text cannot be read: %s." % error.message
