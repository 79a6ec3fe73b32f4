"""The plugin's loaders for MegEngine: threads, since Pillow and NumPy release the interpreter's lock."""

from collections import deque
from concurrent.futures import ThreadPoolExecutor

from dlperf_sdk.worker import loading


class Loader(loading.Loader):
    """An endless iterator over one replica's batches: dictionaries of NumPy arrays, by the input's name.

    Threads make the batches. MegEngine's own DataLoader is not used: its processes exchange batches through a server
    (Arrow's Plasma) that outlives a killed worker, and it does not start on machines with version 2 of control groups.
    """

    def open(self, dataset, draws, request):
        """Yield the dataset's batches in the order of `draws`, while threads make up to `self.prefetched` more.

        `dataset` returns the batch of a list of keys, `draws` yields such lists, and `request` describes the case.
        """
        pool, pending = ThreadPoolExecutor(self.workers), deque()
        try:
            for keys in draws:
                pending.append(pool.submit(dataset.__getitem__, keys))
                if len(pending) > self.prefetched:
                    yield pending.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
