"""`text`: sequences that were tokenised and masked when the data was prepared, read from disk in parallel."""

import numpy as np
import tensorflow as tf

from dlperf_sdk.worker.data import read_arrays
from dlperf_tensorflow.worker.loading import Batches


def batches(request, replica):
    """An endless iterator over a replica's batches: the model's inputs by name, (B, …) int64 or float32.

    Raises:
        DataError: the index or an array is not the one that was prepared.
    """
    arrays = {
        name: np.memmap(entry.path, entry.dtype, "r", shape=entry.shape)
        for name, entry in read_arrays(request.data).items()
    }
    names = [entry["name"] for entry in request.inputs]
    types = [entry["dtype"] for entry in request.inputs]

    def rows(samples):
        return [arrays[name][samples].astype(dtype) for name, dtype in zip(names, types)]

    def load(samples):
        values = tf.numpy_function(rows, [samples], types, stateful=False)
        shapes = [(request.batch_size, *entry["shape"]) for entry in request.inputs]
        return {name: tf.ensure_shape(value, shape) for name, value, shape in zip(names, values, shapes)}

    return Batches(
        request,
        replica,
        keys_of=lambda draws: [sample for _, sample in draws],
        signature=tf.TensorSpec((request.batch_size,), tf.int64),
        pipeline=lambda keys, loaders: keys.map(load, loaders),
        why=lambda draws, error: "The prepared text cannot be read: %s." % error.message,
    )
