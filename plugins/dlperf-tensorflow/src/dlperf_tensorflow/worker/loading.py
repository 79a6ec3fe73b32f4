"""TensorFlow's own loaders: tf.data pipelines."""

from collections import deque

import tensorflow as tf

from dlperf_sdk.worker import loading, python_dataset
from dlperf_sdk.worker.data import DataError


class Loader(loading.Loader):
    """An endless iterator over one replica's batches: dicts from input name to tensor on the host.

    `next()` raises DataError if a batch cannot be made. The dataset is a `TokenPipeline` or a `JpegPipeline`, which
    both have:

    - `keys_of(draws)`: returns the description of one batch, a list or a dict of lists;
    - `signature`: the `tf.TensorSpec` (type and shape) of each list in a description;
    - `pipeline(keys, workers)`: returns a `tf.data.Dataset` of batches from a `tf.data.Dataset` of descriptions;
    - `explain(draws, error)`: returns the message for a batch that failed.
    """

    def count_prefetched(self):
        """Return the most batches that the pipeline makes in advance: `PREFETCH`, however many threads it has."""
        return loading.PREFETCH

    def open(self, dataset, draws, request):
        """Return an iterator over the batches of `dataset` in the order of `draws`: dicts from input name to tensor.

        The pipeline has its own pool of `self.workers` threads. If a batch cannot be read, this loader's
        `next()` raises a DataError.

        Args:
            dataset: A `TokenPipeline` or a `JpegPipeline`.
            draws: An endless iterable with, for each batch, a list of pairs of numbers: that of the draw, which decides
                the crop, and the index of the sample in the data.
            request: Not used.
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
    """An endless iterator over the batches of a Python generator: dicts from input name to tensor on the host."""

    def open(self, generate, request):
        """Return an endless iterator over a generator's batches, dicts from input name to tensor on the host.

        `generate` is a function without arguments that returns an endless generator of one replica's batches, dicts of
        NumPy arrays. It is called twice: first for the shapes of a batch, then for the batches. Their generator runs in
        a thread of this process, in a `tf.data.Dataset`. `request` is not used.
        """
        signature = {
            name: tf.TensorSpec(values.shape, values.dtype) for name, values in next(generate()).items()
        }
        with tf.device("CPU:0"):
            batches = tf.data.Dataset.from_generator(generate, output_signature=signature)
            return iter(batches.prefetch(self.prefetched))
