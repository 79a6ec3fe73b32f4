"""TensorFlow's own tf.data pipelines."""

from collections import deque

import tensorflow as tf

from dlperf_sdk.worker import loading
from dlperf_sdk.worker.data import DataError


class Loader(loading.Loader):
    """An endless iterator over the batches of one replica: dicts of tensors on the host.

    A dataset is a pipeline here: `keys_of(draws)` makes the arrays that describe one batch, whose types and shapes are
    `signature`; `pipeline(keys, workers)` makes a dataset of batches of one of such arrays; `explain(draws, error)`
    says what was wrong with a batch that failed.
    """

    def count_prefetched(self):
        """Return how many batches the pipeline holds ready, whatever the number of its threads."""
        return loading.PREFETCH

    def open(self, dataset, draws, request):
        """Return the iterator of the dataset's pipeline in the order of `draws`."""
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
