"""Labels that are due in each step.

They follow from the request alone (source, seed, shard, order), so that a pipeline cannot vouch for itself.
"""

import itertools
from typing import Any, Callable, Dict, Iterator, List, Mapping, Sequence

import numpy

from dlperf_sdk.worker import canonical, data
from dlperf_sdk.worker.request import Request

Labels = Callable[[Request, Mapping[str, Any], Sequence[int]], List[Iterator[numpy.ndarray]]]
"""Returns for each of some replicas the labels of its batches, without end, of an entry of `Request.inputs`."""


def _canonical(
    request: Request, entry: Mapping[str, Any], replicas: Sequence[int]
) -> List[Iterator[numpy.ndarray]]:
    alone = request._replace(inputs=[dict(entry)])
    return [itertools.repeat(canonical.batch_of(alone, replica)[entry["name"]]) for replica in replicas]


def _drawn(request: Request, labels: numpy.ndarray, replicas: Sequence[int]) -> List[Iterator[numpy.ndarray]]:
    def batches(replica: int) -> Iterator[numpy.ndarray]:
        for keys in data.draws(request, replica):
            yield labels[[sample for _, sample in keys]]

    return [batches(replica) for replica in replicas]


def _images(
    request: Request, entry: Mapping[str, Any], replicas: Sequence[int]
) -> List[Iterator[numpy.ndarray]]:
    return _drawn(request, numpy.array(data.read_images(request.data).labels, entry["dtype"]), replicas)


def _text(
    request: Request, entry: Mapping[str, Any], replicas: Sequence[int]
) -> List[Iterator[numpy.ndarray]]:
    array = data.read_arrays(request.data)[entry["name"]]
    return _drawn(request, numpy.memmap(array.path, array.dtype, "r", shape=array.shape), replicas)


SOURCES: Dict[str, Labels] = {
    "synthetic": _canonical,
    "synthetic-host": _canonical,
    "images": _images,
    "text": _text,
}
"""Data source → the labels that are due."""
