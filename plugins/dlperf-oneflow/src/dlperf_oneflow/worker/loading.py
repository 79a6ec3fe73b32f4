"""Parallel loading, the same for images and text: who loads what, and in which order."""

import functools
import os

import oneflow as flow
from oneflow.utils.data import DataLoader, Dataset, Sampler

from dlperf_sdk.worker import data, lifetime

PREFETCH = 2
"""Batches that each loader may hold ready; OneFlow's own default."""


class Batches:
    """An endless iterator over the batches of one replica: dicts of NumPy arrays.

    Each batch is a whole optimisation step's. The replica sees its own samples only, in an order that follows
    from the seed (`dlperf_sdk.worker.data`), whatever the number of loaders. Every batch is full: with fewer
    samples than a batch needs, some are in it twice, and `facts` says so.

    `load(keys)` must give the batch for a list of (draw, sample): `sample` is the sample's index, and `draw`
    counts what this replica has taken so far, so that chance can be drawn anew for each visit and yet be
    repeatable. A batch that cannot be loaded is a `dlperf_sdk.worker.data.DataError` in its place. Loaders
    make no tensors: OneFlow's threads do not follow a process into its fork.
    """

    def __init__(self, load, request, process):
        (replica,) = process.replicas
        loaders = request.framework_options["loader_workers"]
        self.prefetched = loaders * PREFETCH
        """How many batches can be ready ahead of the one that is being trained on."""
        self.facts = dict(
            data.facts(request, replica), loader_workers=loaders, prefetched_batches=self.prefetched
        )
        """What a result should say about the input, as JSON values."""
        own = data.share(request.data["samples"], replica, request.nodes * request.devices_per_node)
        loader = DataLoader(
            Loaded(load),
            batch_size=None,
            sampler=Keys(own, request.batch_size, request.seed, replica),
            num_workers=loaders,
            prefetch_factor=PREFETCH,
            collate_fn=_as_it_is,
            worker_init_fn=functools.partial(_begin, os.getpid()),
            generator=flow.Generator(),
        )
        self._iterator = iter(loader)

    def __iter__(self):
        return self

    def __next__(self):
        batch = next(self._iterator)
        if isinstance(batch, data.DataError):
            # A new one: an exception that its own traceback holds would keep the loaders until a collection.
            raise data.DataError(str(batch))
        return batch


class Loaded(Dataset):
    """What OneFlow takes for a dataset."""

    def __init__(self, load):
        self._load = load

    def __getitem__(self, keys):
        return self._load(keys)


class Keys(Sampler):
    """(draw, sample) for each sample of each batch, without end."""

    def __init__(self, own, batch_size, seed, replica):
        self._own, self._batch_size, self._seed, self._replica = own, batch_size, seed, replica

    def __iter__(self):
        drawn = enumerate(data.endless(self._own, self._seed, self._replica))
        while True:
            yield [next(drawn) for _ in range(self._batch_size)]


def _as_it_is(batch):
    return batch


def _begin(parent, loader):
    """In a new loader process."""
    lifetime.die_with(parent)
