"""`text`: sequences that were tokenised and masked when the data was prepared, read from disk in parallel."""

import numpy as np
from paddle.io import Dataset

from dlperf_paddle.worker.loading import Batches
from dlperf_sdk.worker.data import read_arrays


def batches(request, process):
    """An endless iterator over this replica's batches: the model's inputs by name, (B, …) int64 or float32.

    Raises:
        DataError: the index or an array is not the one that was prepared.
    """
    dataset = ArrayDataset(request)
    return Batches(dataset, dataset.collate, request, process)


class ArrayDataset(Dataset):
    """The prepared arrays; `dataset[key]` is the sample's row, `collate` reads the rows. See `loading.Batches`."""

    def __init__(self, request):
        super().__init__()
        self.samples = request.data["samples"]
        self.dtypes = {entry["name"]: entry["dtype"] for entry in request.inputs}
        self.arrays = {
            name: np.memmap(entry.path, entry.dtype, "r", shape=entry.shape)
            for name, entry in read_arrays(request.data).items()
        }

    def __len__(self):
        return self.samples

    def __getitem__(self, key):
        return key[1]

    def collate(self, rows):
        """A batch of these rows."""
        return {name: self.arrays[name][rows].astype(dtype) for name, dtype in self.dtypes.items()}
