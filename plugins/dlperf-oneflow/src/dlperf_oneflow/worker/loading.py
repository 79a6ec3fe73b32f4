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

    Each batch is a whole optimisation step's. Which samples, and in which order, is laid down in
    `dlperf_sdk.worker.data.draws`, whatever the number of loaders: `load(draws)` must give the batch for one of
    its lists. A batch that cannot be loaded is a `dlperf_sdk.worker.data.DataError` in its place. Loaders make
    no tensors: OneFlow's threads do not follow a process into its fork.
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
        loader = DataLoader(
            Loaded(load),
            batch_size=None,
            sampler=Draws(request, replica),
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


class Draws(Sampler):
    """What OneFlow takes for a sampler."""

    def __init__(self, request, replica):
        self._request, self._replica = request, replica

    def __iter__(self):
        return data.draws(self._request, self._replica)


def _as_it_is(batch):
    return batch


def _begin(parent, loader):
    """In a new loader process."""
    lifetime.die_with(parent)
