"""Paddle's own DataLoader: loaders are processes, and it puts batches on the device."""

import numpy as np
import paddle

from dlperf_sdk.worker import loading
from dlperf_sdk.worker.data import DataError

_ERROR = "error"


class Loader(loading.Loader):
    """An endless iterator over one replica's batches: dicts from input name to tensor on the replica's device.

    `next()` raises DataError if a sample cannot be read.
    """

    def open(self, dataset, draws, request):
        """Return a DataLoader, an iterable of a dataset's batches, dicts of tensors, in the order of `draws`.

        The DataLoader's processes end with this process.

        Args:
            dataset: Indexed with a list of keys, it returns a batch, a dict from input name to NumPy array; or a
                DataError if a sample cannot be read. The DataLoader hands on the error's text in place of the batch,
                and `next()` of this loader raises a DataError with this text.
            draws: An endless iterable with, for each batch, a list of keys: pairs (number of the draw, sample's index).
            request: Not used.
        """
        return paddle.io.DataLoader(
            _Batches(dataset),
            batch_sampler=_Single(draws),
            collate_fn=_collate,
            num_workers=self.workers,
            prefetch_factor=loading.PREFETCH,
            worker_init_fn=loading.tie_to_this_process(),
        )

    def __next__(self):
        batch = super().__next__()
        if _ERROR in batch:
            raise DataError(batch[_ERROR].numpy().tobytes().decode())
        return batch


class _Batches(paddle.io.Dataset):
    """A dataset whose items are whole batches, of a type that Paddle knows."""

    def __init__(self, dataset):
        super().__init__()
        self._dataset = dataset

    def __getitem__(self, keys):
        return self._dataset[keys]

    def __len__(self):
        return self._dataset.request.data["samples"]


class _Single:
    """A sampler of lists with one item, a whole batch."""

    def __init__(self, draws):
        self._draws = draws

    def __iter__(self):
        return ([keys] for keys in self._draws)


def _collate(items):
    """Return the one batch, or the text of its error: only arrays come from a loader."""
    (batch,) = items
    return {_ERROR: np.frombuffer(str(batch).encode(), np.uint8)} if isinstance(batch, DataError) else batch
