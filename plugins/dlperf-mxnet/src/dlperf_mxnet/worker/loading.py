"""Parallel loading, the same for images and text: who loads what, and in which order."""

import mxnet as mx
from mxnet.gluon.data import DataLoader

from dlperf_sdk.worker import data

PREFETCH = 2
"""Batches that each loader may hold ready; gluon's own default."""


class Batches:
    """An endless iterator over the batches of one replica: dicts of float32 arrays in shared memory.

    The replica sees its own samples only, in an order that follows from the seed (`dlperf_sdk.worker.data`),
    whatever the number of loaders. Every batch is full: with fewer samples than a batch needs, some are in it
    twice, and `facts` says so.

    `dataset[draw, sample]` must give one sample: `sample` is its index, and `draw` counts what this replica
    has taken so far, so that chance can be drawn anew for each visit and yet be repeatable. `batch(samples)`
    must make of such samples a dict of NumPy arrays. Both run in the loaders, and what they raise is raised
    here.
    """

    def __init__(self, dataset, batch, request, replica):
        loaders = request.framework_options["loader_workers"]
        self.prefetched = loaders * PREFETCH
        """How many batches can be ready ahead of the one that is being trained on."""
        self.facts = dict(
            data.facts(request, replica), loader_workers=loaders, prefetched_batches=self.prefetched
        )
        """What a result should say about the input, as JSON values."""
        own = data.share(request.data["samples"], replica, request.nodes * request.devices_per_node)
        self._loader = DataLoader(
            dataset,
            batch_sampler=_keys(own, request.batch_size, request.seed, replica),
            batchify_fn=Shared(batch),
            num_workers=loaders,
            prefetch=self.prefetched,
            # A batch may take long, and the agents hold the deadlines.
            timeout=int(max(request.deadlines.values())),
        )
        self._iterator = iter(self._loader)

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._iterator)


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


def _keys(own, batch_size, seed, replica):
    """(draw, sample) for each sample of each batch, without end."""
    drawn = enumerate(data.endless(own, seed, replica))
    while True:
        yield [next(drawn) for _ in range(batch_size)]
