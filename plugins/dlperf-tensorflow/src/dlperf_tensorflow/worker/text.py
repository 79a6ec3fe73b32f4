"""`text` through tf.data: the prepared arrays, read by its threads."""

import tensorflow as tf

from dlperf_sdk.worker.loading import TokenArrays


def load_text(trainer):
    """Return the iterator of the trainer's batches of the arrays that were prepared of text."""
    return trainer.load(TokenPipeline)


class TokenPipeline(TokenArrays):
    """The model's inputs by name, (B, …) int64 or float32. See `loading.Loader`."""

    def __init__(self, request, replica, layout):
        super().__init__(request, replica, layout)
        self.signature = tf.TensorSpec((request.batch_size,), tf.int64)

    def keys_of(self, draws):
        """Return the dataset's elements of these draws: the samples' indices."""
        return [sample for _, sample in draws]

    def pipeline(self, keys, workers):
        """Return the `tf.data.Dataset` of batches of these keys, made by `workers` threads."""
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
        """Return the error of a batch in words."""
        return "The prepared text cannot be read: %s." % error.message
