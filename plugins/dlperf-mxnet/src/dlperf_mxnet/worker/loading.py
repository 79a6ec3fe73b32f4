"""Parallel loading, the same for images and text: who loads what, and in which order."""

import atexit
import weakref

import mxnet as mx
from mxnet.gluon.data import DataLoader

from dlperf_sdk.worker import data

PREFETCH = 2
"""Batches that each loader may hold ready; gluon's own default."""
PATIENCE = 5.0
"""Seconds in which a loader may finish what it is at."""


class Batches:
    """An endless iterator over the batches of one replica: dicts of float32 arrays in shared memory.

    Which samples, and in which order, is laid down in `dlperf_sdk.worker.data.draws`, whatever the number of
    loaders. `dataset[draw, sample]` must give one sample, and `batch(samples)` must make of such samples a dict
    of NumPy arrays. Both run in the loaders, and what they raise is raised here.
    """

    def __init__(self, dataset, batch, request, replica):
        loaders = request.framework_options["loader_workers"]
        self.prefetched = loaders * PREFETCH
        """How many batches can be ready ahead of the one that is being trained on."""
        self.facts = dict(
            data.facts(request, replica), loader_workers=loaders, prefetched_batches=self.prefetched
        )
        """What a result should say about the input, as JSON values."""
        self._loader = DataLoader(
            dataset,
            batch_sampler=data.draws(request, replica),
            batchify_fn=Shared(batch),
            num_workers=loaders,
            prefetch=self.prefetched,
            # A batch may take long, and the agents hold the deadlines.
            timeout=int(max(request.deadlines.values())),
        )
        self._iterator = iter(self._loader)
        # Loaders that are asked to end take their sockets in TMPDIR along; gluon kills them.
        atexit.register(_end, weakref.ref(self._loader))

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._iterator)


def _end(loader):
    """Have no more batches made, and wait for who makes them."""
    pool = loader() and loader()._worker_pool
    if pool:
        pool.close()
        for process in pool._pool:
            process.join(PATIENCE)


class Shared:
    """Samples to a batch, in memory that the loader's process and the trainer's share."""

    def __init__(self, batch):
        self.batch = batch

    def __call__(self, samples):
        place = mx.Context("cpu_shared", 0)
        return {
            name: mx.nd.array(values, ctx=place, dtype="float32")
            for name, values in self.batch(samples).items()
        }
