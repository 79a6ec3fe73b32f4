"""Labels that are due in each step.

They follow from the request alone (source, seed, shard, order), so that a pipeline cannot vouch for itself.
"""

import itertools
from typing import Any, Callable, Iterator, List, Mapping, Sequence

import numpy

from dlperf_sdk.worker import canonical, data
from dlperf_sdk.worker.request import Request

Labels = Callable[[Request, Mapping[str, Any], Sequence[int]], List[Iterator[numpy.ndarray]]]
"""Returns for each of some replicas the labels of its batches, without end, of an entry of `Request.inputs`."""


def of_canonical_batch(
    request: Request, entry: Mapping[str, Any], replicas: Sequence[int]
) -> List[Iterator[numpy.ndarray]]:
    """Return for each replica an endless iterator of its canonical batch's labels; `entry` is the input."""
    reduced = request._replace(inputs=[dict(entry)])
    return [itertools.repeat(canonical.batch_of(reduced, replica)[entry["name"]]) for replica in replicas]


def _drawn(request: Request, labels: numpy.ndarray, replicas: Sequence[int]) -> List[Iterator[numpy.ndarray]]:
    def batches(replica: int) -> Iterator[numpy.ndarray]:
        for keys in data.draws(request, replica):
            yield labels[[sample for _, sample in keys]]

    return [batches(replica) for replica in replicas]


def of_images(
    request: Request, entry: Mapping[str, Any], replicas: Sequence[int]
) -> List[Iterator[numpy.ndarray]]:
    """Return for each replica an endless iterator of the labels of the images it draws; `entry` is the input."""
    return _drawn(request, numpy.array(data.read_images(request.data).labels, entry["dtype"]), replicas)


def of_text(
    request: Request, entry: Mapping[str, Any], replicas: Sequence[int]
) -> List[Iterator[numpy.ndarray]]:
    """Return for each replica an endless iterator of the labels of the sequences it draws; `entry` is the input."""
    array = data.read_arrays(request.data)[entry["name"]]
    return _drawn(request, numpy.memmap(array.path, array.dtype, "r", shape=array.shape), replicas)
