"""The plugin's sources of batches: the device's memory, threads for prepared data, tf.data around a generator."""

import itertools
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import tensorflow.compat.v1 as tf

from dlperf_sdk.worker import loading, python_dataset


def repeat_resident(trainer):
    """Return an iterator that yields an empty dict as each batch, without end, for the data source `synthetic`.

    For an empty dict, a step reads variables on the device, which this function sets to the canonical batch of
    `trainer`, a `TensorFlow1Trainer`.
    """
    trainer.load_resident_batch()
    return itertools.repeat({})


class Loader(loading.Loader):
    """An endless iterator over one replica's batches: dicts from input name to NumPy array.

    Threads make the batches, since Pillow and NumPy release the interpreter's lock.
    """

    def open(self, dataset, draws, request):
        """Yield the dataset's batches in the order of `draws`, while threads make up to `self.prefetched` more.

        Args:
            dataset: Object of which `dataset[keys]` is the batch for a list of keys: a dict from input name to NumPy
                array. If a sample cannot be read, it is a DataError, which is yielded in place of the batch.
            draws: An endless iterable with, for each batch, a list of keys: pairs (number of the draw, sample's index).
            request: Not used.
        """
        pool, pending = ThreadPoolExecutor(self.workers), deque()
        try:
            for keys in draws:
                pending.append(pool.submit(dataset.__getitem__, keys))
                if len(pending) > self.prefetched:
                    yield pending.popleft().result()
        finally:
            for batch in pending:
                batch.cancel()
            pool.shutdown(wait=False)

    def close(self):
        """End the threads, after each has finished the batch that it is making."""
        self._batches.close()


class GeneratorFeed(python_dataset.GeneratorFeed):
    """An endless iterator over the batches of a Python generator: dicts from input name to NumPy array."""

    def open(self, generate, request):
        """Yield a generator's batches without end: dicts from input name to NumPy array.

        `generate` is a function without arguments that returns an endless generator of one replica's batches, dicts of
        NumPy arrays. It is called twice: first for the types and shapes of a batch, then for the batches. Their
        generator runs in a thread of a `tf.data.Dataset`, which has its own graph and session, on the CPU. `request` is
        not used.
        """
        example = next(generate())
        types = {name: values.dtype for name, values in example.items()}
        shapes = {name: values.shape for name, values in example.items()}
        with tf.Graph().as_default() as graph:
            dataset = tf.data.Dataset.from_generator(generate, types, shapes).prefetch(self.prefetched)
            batch = tf.data.make_one_shot_iterator(dataset).get_next()
        # Not as a context: that would be the default session of whatever runs between two batches.
        session = tf.Session(graph=graph, config=tf.ConfigProto(device_count={"GPU": 0}))
        try:
            while True:
                yield session.run(batch)
        finally:
            session.close()

    def close(self):
        """Close the dataset's session."""
        self._batches.close()
