"""Parallel loading, the same for images and text: who loads what, and in which order."""

import atexit
import functools
import os
import weakref

import torch
from torch.utils.data import DataLoader

from dlperf_sdk.worker import data, lifetime

PREFETCH = 2
"""Batches that each loader may hold ready; torch's own default."""


class Batches:
    """An endless iterator over the batches of one replica: dicts of CPU tensors, page-locked where there is
    a GPU.

    Each batch is a whole optimisation step's. Which samples, and in which order, is laid down in
    `dlperf_sdk.worker.data.draws`, whatever the number of loaders: `dataset[draws]` must give the batch for one
    of its lists. A batch that cannot be loaded is a `dlperf_sdk.worker.data.DataError` in its place.
    """

    def __init__(self, dataset, request, process):
        (replica,) = process.replicas
        loaders = request.framework_options["loader_workers"]
        self.prefetched = loaders * PREFETCH
        """How many batches can be ready ahead of the one that is being trained on."""
        self.facts = dict(
            data.facts(request, replica), loader_workers=loaders, prefetched_batches=self.prefetched
        )
        """What a result should say about the input, as JSON values."""
        loader = DataLoader(
            dataset,
            batch_size=None,
            sampler=data.draws(request, replica),
            num_workers=loaders,
            prefetch_factor=PREFETCH,
            pin_memory=request.device == "cuda",
            # Not "spawn": this program is a zip archive, which a new interpreter cannot import as main.
            multiprocessing_context="fork",
            worker_init_fn=functools.partial(_begin, os.getpid()),
            # Without it, a number would come from torch's own generator, and move dropout with the source.
            generator=torch.Generator().manual_seed(request.seed),
        )
        self._iterator = iter(loader)
        # Loaders that are asked to end take their sockets in TMPDIR along; at the interpreter's end they are killed.
        atexit.register(_end, weakref.ref(self))

    def __iter__(self):
        return self

    def __next__(self):
        batch = next(self._iterator)
        if isinstance(batch, data.DataError):
            # A new one: an exception that its own traceback holds would keep the loaders until a collection.
            raise data.DataError(str(batch))
        return batch


def _end(batches):
    """Let go of the iterator, if it is still there: then torch ends its loaders, and waits for them."""
    if batches() is not None:
        del batches()._iterator


def _begin(parent, loader):
    """In a new loader process; torch has set its threads to one by then."""
    lifetime.die_with(parent)
