"""Loaders that are threads: Pillow and NumPy let go of the interpreter's lock where they take long."""

from collections import deque
from concurrent.futures import ThreadPoolExecutor

from dlperf_sdk.worker import loading


class Loader(loading.Loader):
    """An endless iterator over the batches of one replica: dicts of NumPy arrays.

    JAX has no loader of its own, and its threads do not survive a fork.
    """

    def open(self, dataset, draws, request):
        """Yield the dataset's batches in the order of their draws; `prefetched` of them are prepared meanwhile."""
        pool, pending = ThreadPoolExecutor(self.workers), deque()
        try:
            for keys in draws:
                pending.append(pool.submit(dataset.__getitem__, keys))
                if len(pending) > self.prefetched:
                    yield pending.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
