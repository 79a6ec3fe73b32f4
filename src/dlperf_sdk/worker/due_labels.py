"""The labels that each step of a data source must be given.

They follow from the request alone (source, seed, shard, order), so that a pipeline's own account is not needed.
"""

import itertools
from typing import Any, Callable, Iterator, List, Mapping, Sequence

import numpy

from dlperf_sdk.worker import canonical, data
from dlperf_sdk.worker.request import Request

Labels = Callable[[Request, Mapping[str, Any], Sequence[int]], List[Iterator[numpy.ndarray]]]
"""Returns, for each of some replicas (global indexes), an endless iterator over the labels of its batches: one
array per step, of one entry of `Request.inputs`."""


def of_canonical_batch(
    request: Request, entry: Mapping[str, Any], replicas: Sequence[int]
) -> List[Iterator[numpy.ndarray]]:
    """Return for each replica an endless iterator that repeats the labels of its canonical batch.

    Args:
        request: The case.
        entry: The entry of `Request.inputs` that holds the labels.
        replicas: Global indexes of the replicas.

    Returns:
        The iterators in the order of `replicas`; each yields the same array (batch size, …) of the entry's dtype.

    Raises:
        ValueError: The entry has an unknown kind of `fill`.
    """
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
    """Return for each replica an endless iterator over the labels, (batch size,), of the images that it draws.

    Args:
        request: The case, whose data source reads an image index.
        entry: The entry of `Request.inputs` that holds the labels.
        replicas: Global indexes of the replicas.

    Returns:
        The iterators in the order of `replicas`; each yields one array of the entry's dtype per batch.

    Raises:
        DataError: The image index is not the one that was prepared.
    """
    return _drawn(request, numpy.array(data.read_images(request.data).labels, entry["dtype"]), replicas)


def of_text(
    request: Request, entry: Mapping[str, Any], replicas: Sequence[int]
) -> List[Iterator[numpy.ndarray]]:
    """Return for each replica an endless iterator over the labels, (batch size, …), of the sequences that it draws.

    Args:
        request: The case, whose data source is `text`.
        entry: The entry of `Request.inputs` that holds the labels.
        replicas: Global indexes of the replicas.

    Returns:
        The iterators in the order of `replicas`; each yields one array of the prepared dtype per batch.

    Raises:
        DataError: The index or an array is not the one that was prepared.
        KeyError: The prepared data has no array of the entry's name.
    """
    array = data.read_arrays(request.data)[entry["name"]]
    return _drawn(request, numpy.memmap(array.path, array.dtype, "r", shape=array.shape), replicas)
