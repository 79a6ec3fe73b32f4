"""OneFlow's own DataLoader: loaders are processes.

They return NumPy arrays, not tensors: OneFlow's threads do not exist in a forked process.
"""

import oneflow as flow
from oneflow.utils.data import DataLoader

from dlperf_sdk.worker import loading


class Loader(loading.Loader):
    """An endless iterator over one replica's batches: dicts from input name to NumPy array."""

    def open(self, dataset, draws, request):
        """Return a DataLoader that yields the batches of `dataset` in the order of `draws`.

        A batch is a dict from input name to NumPy array. In place of a batch that failed, it yields a DataError. The
        DataLoader's processes end with this process.

        Args:
            dataset: Indexed with a list of keys, it returns a batch, a dict from input name to NumPy array; or a
                DataError, which the DataLoader hands on in place of the batch.
            draws: An endless iterable of lists of keys, one for each batch.
            request: Not used.
        """
        return DataLoader(
            dataset,
            batch_size=None,
            sampler=draws,
            num_workers=self.workers,
            prefetch_factor=loading.PREFETCH,
            collate_fn=_collate_unchanged,
            worker_init_fn=loading.tie_to_this_process(),
            generator=flow.Generator(),
        )


def _collate_unchanged(batch):
    return batch
