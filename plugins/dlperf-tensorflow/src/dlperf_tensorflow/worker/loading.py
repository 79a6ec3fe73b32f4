"""TensorFlow's own loaders: tf.data pipelines."""

from collections import deque

import tensorflow as tf

from dlperf_sdk.worker import loading, python_dataset
from dlperf_sdk.worker.data import DataError


class Loader(loading.Loader):
    """An endless iterator over one replica's batches: dictionaries of tensors on the host, by the input's name.

    `next()` raises DataError if a batch cannot be made. Its dataset is a `TokenPipeline` or a `JpegPipeline`, which
    both have:

    - `keys_of(draws)`: returns the lists that describe one batch, of the types and shapes in `signature`;
    - `pipeline(keys, workers)`: returns a `tf.data.Dataset` of batches from a `tf.data.Dataset` of such lists;
    - `explain(draws, error)`: returns the message for a batch that failed.
    """

    def count_prefetched(self):
        """Return the number of batches that the pipeline holds ready, whatever the number of threads."""
        return loading.PREFETCH

    def open(self, dataset, draws, request):
        """Return the iterator of the dataset's pipeline over batches in the order of `draws`.

        The pipeline has its own pool of `self.workers` threads. If a batch fails, `next()` of this object raises a
        DataError. `dataset` is a pipeline as the class describes it, `draws` yields the lists of pairs (draw, sample)
        of the batches, and `request` describes the case.
        """
        self._dataset, self._pending = dataset, deque()

        def keys():
            for drawn in draws:
                self._pending.append(drawn)
                yield dataset.keys_of(drawn)

        options = tf.data.Options()
        options.deterministic = True
        options.autotune.enabled = False
        options.threading.private_threadpool_size = self.workers
        with tf.device("CPU:0"):
            described = tf.data.Dataset.from_generator(keys, output_signature=dataset.signature)
            # AutoGraph would find nothing to change in the pipeline's functions, and write them into files that stay
            # if this process is killed.
            pipeline = tf.autograph.experimental.do_not_convert(dataset.pipeline)
            batches = pipeline(described, self.workers).prefetch(self.prefetched)
            return iter(batches.with_options(options))

    def __next__(self):
        try:
            batch = next(self._batches)
        except tf.errors.OpError as error:
            raise DataError(self._dataset.explain(self._pending[0], error)) from None
        self._pending.popleft()
        return batch


class GeneratorFeed(python_dataset.GeneratorFeed):
    """An endless iterator over the batches of a Python generator: dictionaries of tensors on the host, by name."""

    def open(self, generate, request):
        """Return the iterator of a `tf.data.Dataset` over the generator, which runs in a thread of this process.

        `generate` is the generator function of one replica's batches, and `request` describes the case.
        """
        signature = {
            name: tf.TensorSpec(values.shape, values.dtype) for name, values in next(generate()).items()
        }
        with tf.device("CPU:0"):
            batches = tf.data.Dataset.from_generator(generate, output_signature=signature)
            return iter(batches.prefetch(self.prefetched))
