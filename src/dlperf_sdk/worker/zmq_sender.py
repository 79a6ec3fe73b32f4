"""The sender of the data sources `zmq` and `zmq-tcp`: a service that sends one replica its batches."""

import os
from collections import deque
from time import monotonic
from typing import Any, Deque, Dict, Iterator, Tuple

import numpy

from dlperf_sdk.worker import canonical
from dlperf_sdk.worker.interface import InputCounts
from dlperf_sdk.worker.loading import PREFETCH, lay_out
from dlperf_sdk.worker.processes import Cluster, Process
from dlperf_sdk.worker.python_dataset import copies_of
from dlperf_sdk.worker.request import Request
from dlperf_sdk.worker.zmq_messages import LAYOUTS, Batch, address_of, pack

LONGEST_QUESTION = 1024
"""Bytes, which also hold the messages with which ZeroMQ opens a connection."""
_MOST_UNSENT = 4 * PREFETCH
"""Batches that wait for one receiver; ZeroMQ drops more. A trainer has `PREFETCH`, and ZeroMQ counts late."""
_MOST_AT_ONCE = 64
"""Messages that are received before a question is answered."""


def send(request: Request, cluster: Cluster, process: Process) -> None:
    """Send a trainer a copy of the canonical batch each time it asks for one, until the agent ends this process.

    Args:
        request: The case.
        cluster: All nodes of the case.
        process: This process; its `feeds` is the global index of the replica whose batches it sends.

    Raises:
        zmq.ZMQError: The address cannot be bound, for example because it is in use.
        ValueError: `process.feeds` is None, or an input has an unknown kind of `fill`.
        Unsupported: The data source is neither `zmq` nor `zmq-tcp`.
        ImportError: ZeroMQ for Python is not installed.
    """
    import zmq

    if process.feeds is None:
        raise ValueError("a sender needs the replica that it feeds")
    shard = canonical.batch_of(request, process.feeds)
    address = address_of(request, cluster, process.node, process.feeds)
    with zmq.Context() as context, open_socket(context, address) as socket:
        answer(socket, shard)


def open_socket(context: Any, address: str) -> Any:
    """Return a socket of the type ROUTER, bound to an endpoint; the caller closes it.

    Args:
        context: The ZeroMQ context of the socket.
        address: The endpoint, such as `tcp://HOST:PORT`.

    Raises:
        zmq.ZMQError: The address cannot be bound, for example because it is in use.
    """
    import zmq

    socket = context.socket(zmq.ROUTER)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.MAXMSGSIZE, LONGEST_QUESTION)
    socket.setsockopt(zmq.SNDHWM, _MOST_UNSENT)
    socket.bind(address)
    return socket


def answer(socket: Any, shard: Dict[str, numpy.ndarray]) -> None:
    """Answer each question that arrives at a socket with a copy of a batch, without end.

    A question is a receiver's message that asks for a batch: the layout of the images, `nchw` or `nhwc`. All other
    messages are ignored. At most `PREFETCH` (2) questions of one receiver can wait for an answer; its further questions
    are ignored.

    Args:
        socket: A bound ZeroMQ socket of the type ROUTER.
        shard: The batch to send copies of: NumPy arrays by the input's name; images are (B, C, H, W).
    """
    batches: Dict[str, Iterator[Dict[str, numpy.ndarray]]] = {
        layout: copies_of(lay_out(shard, layout))() for layout in LAYOUTS.values()
    }
    cpus = sorted(os.sched_getaffinity(0))
    questions: Deque[Tuple[bytes, str]] = deque()
    counts = InputCounts(0, 0.0, 0)
    while True:
        for _ in range(_MOST_AT_ONCE):
            if questions and not socket.poll(0):
                break
            receiver, *question = socket.recv_multipart()
            layout = LAYOUTS.get(b"".join(question))
            if layout is not None and _count(questions, receiver) < PREFETCH:
                questions.append((receiver, layout))
        if not questions:
            continue
        receiver, layout = questions.popleft()
        started_at = monotonic()
        arrays = next(batches[layout])
        # Each receiver has `PREFETCH` questions or batches under way: what it has not asked for is there already.
        waiting = PREFETCH - _count(questions, receiver)
        counts = InputCounts(counts.batches + 1, counts.seconds, counts.depth + waiting)
        socket.send_multipart([receiver, *pack(Batch(arrays, counts, cpus))], copy=False)
        counts = counts._replace(seconds=counts.seconds + monotonic() - started_at)


def _count(questions: Deque[Tuple[bytes, str]], receiver: bytes) -> int:
    return sum(1 for other, _ in questions if other == receiver)
