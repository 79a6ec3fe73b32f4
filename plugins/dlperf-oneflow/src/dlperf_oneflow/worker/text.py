"""`text`: sequences that were tokenised and masked when the data was prepared, read from disk in parallel."""

import numpy as np

from dlperf_oneflow.worker.loading import Batches
from dlperf_sdk.worker.data import read_arrays


def batches(request, process):
    """An endless iterator over this replica's batches: the model's inputs by name, (B, …) int64 or float32.

    Raises:
        DataError: the index or an array is not the one that was prepared.
    """
    return Batches(Arrays(request), request, process)


class Arrays:
    """The prepared arrays; called with keys, a batch. See `loading.Batches`."""

    def __init__(self, request):
        self.dtypes = {entry["name"]: entry["dtype"] for entry in request.inputs}
        self.arrays = {
            name: np.memmap(entry.path, entry.dtype, "r", shape=entry.shape)
            for name, entry in read_arrays(request.data).items()
        }

    def __call__(self, keys):
        samples = [sample for _, sample in keys]
        return {name: self.arrays[name][samples].astype(dtype) for name, dtype in self.dtypes.items()}
