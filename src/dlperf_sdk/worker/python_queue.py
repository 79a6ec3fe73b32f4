"""The data source `python-queue`: Python threads put a process's batches into queues, one thread per replica."""

import queue
import threading
from time import monotonic
from typing import Any, Mapping

import numpy

from dlperf_sdk.worker.interface import InputCounts
from dlperf_sdk.worker.loading import PREFETCH, BatchFeed
from dlperf_sdk.worker.python_dataset import copies_of
from dlperf_sdk.worker.request import Request


class QueueFeed(BatchFeed):
    """A feed of copies of one batch, which a thread makes and puts into a queue of `PREFETCH` (2) batches.

    The thread shares the interpreter's lock with the training loop. It ends after `close`, or with the process.
    `next()` waits for a batch, a dict of NumPy arrays by the input's name, and raises the exception with which the
    thread failed.

    Args:
        batch: The replica's host batch: the model's inputs by name, each a NumPy array.
        request: The case.
    """

    def __init__(self, batch: Mapping[str, numpy.ndarray], request: Request) -> None:
        super().__init__(
            PREFETCH + 1,  # the thread holds one more, until there is room for it
            {
                "source": request.data["source"],
                "samples_per_replica": request.batch_size,
                "queue_size": PREFETCH,
            },
        )
        self._made = copies_of(batch)()
        self._queue: "queue.Queue[Any]" = queue.Queue(PREFETCH)
        self._counts = InputCounts(0, 0.0, 0)
        self._is_closed = False
        self.thread = threading.Thread(target=self._fill, name="python-queue", daemon=True)
        """The thread. It does not keep the process alive."""
        self.thread.start()

    @property
    def counts(self) -> InputCounts:
        """Counts of the batches queued so far: their number, the seconds to make them, and the sum of queue depths."""
        return self._counts

    def _fill(self) -> None:
        while not self._is_closed:
            started_at = monotonic()
            try:
                batch: Any = next(self._made)
            except Exception as error:
                batch, self._is_closed = error, True
            made_at = monotonic()
            self._queue.put(batch)
            batches, seconds, depth = self._counts
            # Assigned as a whole, so that other threads read numbers that belong together.
            self._counts = InputCounts(
                batches + 1, seconds + made_at - started_at, depth + self._queue.qsize()
            )

    def __next__(self) -> Any:
        batch = self._queue.get()
        if isinstance(batch, Exception):
            raise batch
        return batch

    def close(self) -> None:
        """Stop the thread, and empty the queue, because the thread may wait for room in it.

        No batch can be taken afterwards.
        """
        self._is_closed = True
        while not self._queue.empty():
            self._queue.get()
