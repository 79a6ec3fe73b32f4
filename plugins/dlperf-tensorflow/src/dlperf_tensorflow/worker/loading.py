"""tf.data pipelines, the same for images and text: who loads what, and in which order."""

from collections import deque

import tensorflow as tf

from dlperf_sdk.worker import data

PREFETCH = 2
"""Batches that are held ready."""


class Batches:
    """An endless iterator over the batches of one replica: dicts of tensors on the host.

    Each batch is a whole optimisation step's. Which samples, and in which order, is laid down in
    `dlperf_sdk.worker.data.draws`, whatever the number of loaders. `keys_of(draws)` makes the arrays that describe
    one batch. `pipeline(keys, loaders)` makes a dataset of batches of one of such arrays, whose types and shapes
    are `signature`. `why(draws, error)` says what was wrong with a batch that failed.
    """

    def __init__(self, request, replica, keys_of, signature, pipeline, why):
        loaders = request.framework_options["loader_workers"]
        self.prefetched = PREFETCH
        """How many batches can be ready ahead of the one that is being trained on."""
        self.facts = dict(
            data.facts(request, replica), loader_workers=loaders, prefetched_batches=self.prefetched
        )
        """What a result should say about the input, as JSON values."""
        self._why, self._ahead = why, deque()

        def keys():
            for draws in data.draws(request, replica):
                self._ahead.append(draws)
                yield keys_of(draws)

        options = tf.data.Options()
        options.deterministic = True
        options.autotune.enabled = False
        options.threading.private_threadpool_size = loaders
        with tf.device("CPU:0"):
            dataset = tf.data.Dataset.from_generator(keys, output_signature=signature)
            # AutoGraph would find nothing to change in the pipeline's functions, and write them into files that stay
            # if this process is killed.
            pipeline = tf.autograph.experimental.do_not_convert(pipeline)
            dataset = pipeline(dataset, loaders).prefetch(PREFETCH)
            self._iterator = iter(dataset.with_options(options))

    def __iter__(self):
        return self

    def __next__(self):
        try:
            batch = next(self._iterator)
        except tf.errors.OpError as error:
            raise data.DataError(self._why(self._ahead[0], error)) from None
        self._ahead.popleft()
        return batch
