"""`text`: sequences that were tokenised and masked when the data was prepared, read from disk in parallel."""

import numpy as np

from dlperf_mxnet.worker.loading import Batches
from dlperf_sdk.worker.data import read_arrays


def batches(request, replica):
    """An endless iterator over a replica's batches: the model's inputs by name, (B, …).

    Raises:
        DataError: the index or an array is not the one that was prepared.
    """
    return Batches(ArrayDataset(request), stacked, request, replica)


class ArrayDataset:
    """The prepared arrays; `dataset[draw, sample]` is a dict of one sample's."""

    def __init__(self, request):
        self.arrays = {
            name: np.memmap(entry.path, entry.dtype, "r", shape=entry.shape)
            for name, entry in read_arrays(request.data).items()
        }

    def __getitem__(self, key):
        _, sample = key
        return {name: array[sample] for name, array in self.arrays.items()}


def stacked(samples):
    """Samples to a batch."""
    return {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}
