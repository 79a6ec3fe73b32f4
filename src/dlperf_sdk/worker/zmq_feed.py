"""The receiving end of the data sources `zmq` and `zmq-tcp`, in the trainer's process."""

from typing import Any, Mapping

import numpy

from dlperf_sdk.worker.interface import InputCounts
from dlperf_sdk.worker.loading import PREFETCH, BatchFeed
from dlperf_sdk.worker.request import Request
from dlperf_sdk.worker.zmq_messages import LONGEST_HEADER, unpack


class ZmqFeed(BatchFeed):
    """A feed of the batches that a replica's sender makes in a separate process.

    At most `PREFETCH` (2) batches are requested and not yet taken. A thread of ZeroMQ, which runs no Python, receives
    them. `next()` waits for a batch, a dict of NumPy arrays by the input's name, and raises MalformedBatch if the
    message is no batch of the case. It sets `sender_cpus` in `facts`, the list of the processors that the sender may
    use.

    Args:
        address: The address of the replica's sender.
        expected: Arrays with the names, data types and shapes of a batch.
        layout: The layout of images, `nchw` or `nhwc`.
        request: The case.

    Raises:
        ImportError: ZeroMQ for Python is not installed.
    """

    def __init__(
        self, address: str, expected: Mapping[str, numpy.ndarray], layout: str, request: Request
    ) -> None:
        import zmq

        super().__init__(
            PREFETCH,
            {
                "source": request.data["source"],
                "samples_per_replica": request.batch_size,
                "queue_size": PREFETCH,
                "pyzmq_version": zmq.__version__,
            },
        )
        self._expected, self._question = expected, layout.encode("ascii")
        self._counts = InputCounts(0, 0.0, 0)
        self._socket: Any = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.setsockopt(zmq.LINGER, 0)
        largest = max(values.nbytes for values in expected.values())
        self._socket.setsockopt(zmq.MAXMSGSIZE, max(largest, LONGEST_HEADER))
        self._socket.connect(address)  # at once; ZeroMQ tries again until the sender listens
        for _ in range(PREFETCH):
            self._socket.send(self._question)

    @property
    def counts(self) -> InputCounts:
        """Counts of the sender's batches so far: number, seconds to make them, sum of queue depths; zeros at first.

        The sender sends them with each batch; those of the last batch that was taken here are returned.
        """
        return self._counts

    def close(self) -> None:
        """Close the connection; no batch can be taken afterwards."""
        self._socket.close()

    def __next__(self) -> Any:
        frames = self._socket.recv_multipart(copy=False)
        self._socket.send(self._question)
        batch = unpack([frame.buffer for frame in frames], self._expected)
        self._counts, self.facts["sender_cpus"] = batch.counts, batch.cpus
        return batch.arrays
