"""Messages of the data sources `zmq` and `zmq-tcp`: where they are sent, and what a batch consists of.

A trainer asks for a batch with a message of one frame, the layout of images that it wants. The answer has one frame
more than the model has inputs: a header in JSON, then the bytes of each array. A receiver knows all names, types and
shapes in advance, and rejects anything else: nothing in a message decides what is executed or allocated.
"""

import json
import math
from typing import Any, List, Mapping, NamedTuple, Sequence, Tuple

import numpy

from dlperf_sdk.worker.interface import InputCounts
from dlperf_sdk.worker.processes import Cluster
from dlperf_sdk.worker.request import Request
from dlperf_sdk.worker.unsupported import look_up

LONGEST_HEADER = 65536
"""Bytes."""
_LARGEST_NUMBER = 2**53
"""Maximum count, number of seconds or processor, which JSON holds exactly."""
LAYOUTS = {b"nchw": "nchw", b"nhwc": "nhwc"}
"""Question for a batch → the layout of its images."""


class MalformedBatch(ValueError):
    """A message that is not a batch of the case."""


class Batch(NamedTuple):
    """One batch, as it was received."""

    arrays: Mapping[str, numpy.ndarray]
    """The model's inputs by name."""
    counts: InputCounts
    """Counts of the sender up to this batch, and including it."""
    cpus: List[int]
    """Processors that the sender may use."""


def _through_socket_file(ports: Sequence[str], replica: int) -> str:
    # Relative: each worker's directory is two levels below the agent's, which only its user can enter.
    return "ipc://../../batches-%d" % replica


def _through_tcp(ports: Sequence[str], replica: int) -> str:
    return "tcp://127.0.0.1:%s" % ports[replica % len(ports)]


ADDRESSES = {"zmq": _through_socket_file, "zmq-tcp": _through_tcp}
"""Data source → the function that returns the address of a replica's sender, from the ports of the node's senders."""


def address_of(request: Request, cluster: Cluster, node: int, replica: int) -> str:
    """Return the address at which the sender of a replica listens, for the data source of the request.

    Args:
        request: The case.
        cluster: All nodes of the case.
        node: Number of the node on which the replica's trainer and sender run.
        replica: The replica's global index.

    Returns:
        An endpoint of ZeroMQ. For `zmq` it is a socket file such as `ipc://../../batches-3`, relative to the working
        directory of a worker; for `zmq-tcp` a port on this node, such as `tcp://127.0.0.1:29400`.

    Raises:
        Unsupported: The data source is neither `zmq` nor `zmq-tcp`.
    """
    ports = cluster.nodes[node].ports[-request.devices_per_node :]  # one for each replica of the node
    return look_up("data source of senders", request.data["source"], ADDRESSES)(ports, replica)


def _describe(arrays: Mapping[str, numpy.ndarray]) -> List[List[Any]]:
    """Return name, data type and shape of each array, as the header of a batch has them."""
    return [[name, values.dtype.str, list(values.shape)] for name, values in arrays.items()]


def pack(batch: Batch) -> List[Any]:
    """Return the frames of the message for a batch: a header in JSON as bytes, then a NumPy array per input.

    The arrays are in the order of `batch.arrays`. An array is copied only if it is not contiguous. The header has the
    names, data types and shapes of the arrays, and the batch's `counts` and `cpus`.
    """
    header = {"arrays": _describe(batch.arrays), "counts": list(batch.counts), "cpus": batch.cpus}
    return [json.dumps(header).encode("ascii"), *map(numpy.ascontiguousarray, batch.arrays.values())]


def unpack(frames: Sequence[Any], expected: Mapping[str, numpy.ndarray]) -> Batch:
    """Return the batch that a message contains, with arrays that can be written to.

    The arrays lie in the memory of the frames if they are aligned and writable there; else they are copies.

    Args:
        frames: The frames of the message, each an object with the buffer interface: a header in JSON, then the bytes of
            each array.
        expected: Arrays with the names, data types and shapes that the batch must have.

    Raises:
        MalformedBatch: The frames are no batch with these arrays.
    """
    if len(frames) != len(expected) + 1:
        raise MalformedBatch("expected a header and %d arrays, got %d frames" % (len(expected), len(frames)))
    counts, cpus = _read_header(bytes(memoryview(frames[0])[: LONGEST_HEADER + 1]), _describe(expected))
    arrays = {}
    for frame, (name, values) in zip(frames[1:], expected.items()):
        size = memoryview(frame).nbytes
        if size != values.nbytes:
            raise MalformedBatch("expected %d bytes of %s, got %d" % (values.nbytes, name, size))
        array = numpy.frombuffer(frame, values.dtype).reshape(values.shape)
        arrays[name] = numpy.require(array, requirements=["ALIGNED", "WRITEABLE"])
    return Batch(arrays, counts, cpus)


def _read_header(content: bytes, arrays: List[List[Any]]) -> Tuple[InputCounts, List[int]]:
    """Return counts and processors of a header; raise MalformedBatch if it does not describe these arrays."""
    if len(content) > LONGEST_HEADER:
        raise MalformedBatch("expected a header of at most %d bytes" % LONGEST_HEADER)
    try:
        header = json.loads(content.decode("ascii"))
        batches, seconds, depth = header["counts"]
        counts = InputCounts(int(batches), float(seconds), int(depth))
        cpus = [int(cpu) for cpu in header["cpus"]]
        described = header["arrays"]
        if (
            not math.isfinite(counts.seconds)
            or min(*counts, *cpus) < 0
            or max(*counts, *cpus) > _LARGEST_NUMBER
        ):
            raise ValueError("a number is negative or impossible")
    except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
        raise MalformedBatch("malformed header (%s: %s)" % (type(error).__name__, error)) from None
    if described != arrays:
        raise MalformedBatch("expected the arrays %s, got %.1000s" % (arrays, described))
    return counts, cpus
