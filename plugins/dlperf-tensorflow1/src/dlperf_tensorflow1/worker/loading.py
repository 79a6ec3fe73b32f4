"""The plugin's sources of batches: the device's memory, threads for prepared data, tf.data around a generator."""

import itertools
from collections import deque
from concurrent.futures import ThreadPoolExecutor

import tensorflow.compat.v1 as tf

from dlperf_sdk.worker import loading, python_dataset


def repeat_resident(trainer):
    """Return the empty batch without end, for the data source `synthetic`.

    The variables that `trainer`'s step then reads are set to the canonical batch first.
    """
    trainer.load_resident_batch()
    return itertools.repeat({})


class Loader(loading.Loader):
    """An endless iterator over one replica's batches: dictionaries of NumPy arrays, by the input's name.

    Threads make the batches, since Pillow and NumPy release the interpreter's lock.
    """

    def open(self, dataset, draws, request):
        """Yield the dataset's batches in the order of `draws`, while threads make up to `self.prefetched` more.

        `dataset` returns the batch of a list of keys, or a DataError, which is yielded in its place. `draws` yields
        such lists. `request` is not used.
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
        """End the threads, each of which finishes the batch that it makes."""
        self._batches.close()


class GeneratorFeed(python_dataset.GeneratorFeed):
    """An endless iterator over the batches of a Python generator: dictionaries of NumPy arrays, by name."""

    def open(self, generate, request):
        """Yield the batches of a `tf.data.Dataset` over the generator, which runs in a thread of this process.

        The dataset has a graph and a session of its own, on the CPU. `generate` is the generator function of one
        replica's batches, which is called once more for the types and shapes. `request` is not used.
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
