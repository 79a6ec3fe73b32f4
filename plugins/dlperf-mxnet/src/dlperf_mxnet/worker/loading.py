"""gluon's own DataLoader: loaders are processes, and batches lie in memory that they share with the trainer."""

import mxnet as mx
from mxnet.gluon.data import DataLoader

from dlperf_sdk.worker import loading
from dlperf_sdk.worker.data import DataError


class Loader(loading.Loader):
    """An endless iterator over one replica's batches: dicts from input name to float32 array.

    On a CPU the arrays are in memory that the loader processes share with the trainer.
    """

    def open(self, dataset, draws, request):
        """Return a DataLoader, an iterable of a dataset's batches, dicts of MXNet arrays, in the order of `draws`.

        The arrays are float32. The DataLoader's processes end with this process.

        Args:
            dataset: Indexed with a list of keys, it returns a batch, a dict from input name to NumPy array; or a
                DataError, which the DataLoader hands on in place of the batch.
            draws: An endless iterable of lists of keys, one for each batch.
            request: The request, whose longest deadline limits the wait for a batch.
        """
        loading.share_folder_of_sockets()
        return DataLoader(
            dataset,
            batch_sampler=([keys] for keys in draws),
            batchify_fn=_share,
            num_workers=self.workers,
            prefetch=self.prefetched,
            # A batch may take long, and the agents hold the deadlines.
            timeout=int(max(request.deadlines.values())),
        )


def _share(items):
    """Return the one batch in shared memory, float32 as MXNet's operators take it, or its error."""
    (batch,) = items
    if isinstance(batch, DataError):
        return batch
    place = mx.Context("cpu_shared", 0)
    return {name: mx.nd.array(values, ctx=place, dtype="float32") for name, values in batch.items()}
