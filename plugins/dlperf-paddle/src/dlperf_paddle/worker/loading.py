"""Parallel loading through paddle.io, the same for images and text: who loads what, and in which order."""

import functools
import os

import numpy as np
import paddle

from dlperf_sdk.worker import data, lifetime

PREFETCH = 2
"""Batches that each loader may hold ready; Paddle's own default."""
_FAULT = "fault"


class Batches:
    """An endless iterator over the batches of one replica: dicts of tensors on its device.

    Each batch is a whole optimisation step's. Which samples, and in which order, is laid down in
    `dlperf_sdk.worker.data.draws`, whatever the number of loaders. `dataset[draw, sample]` must give the arrays
    of one sample, and `collate` makes a batch, name → array, of a list of those. A sample that cannot be loaded
    is a `dlperf_sdk.worker.data.DataError` in its place: what a loader raises would be lost in a thread of
    Paddle's.
    """

    def __init__(self, dataset, collate, request, process):
        (replica,) = process.replicas
        loaders = request.framework_options["loader_workers"]
        self.prefetched = loaders * PREFETCH
        """How many batches can be ready ahead of the one that is being trained on."""
        self.facts = dict(
            data.facts(request, replica), loader_workers=loaders, prefetched_batches=self.prefetched
        )
        """What a result should say about the input, as JSON values."""
        self._loader = paddle.io.DataLoader(
            dataset,
            batch_sampler=_Draws(request, replica),
            collate_fn=functools.partial(_collated, collate),
            num_workers=loaders,
            prefetch_factor=PREFETCH,
            worker_init_fn=functools.partial(_begin, os.getpid()),
        )
        self._iterator = iter(self._loader)

    def __iter__(self):
        return self

    def __next__(self):
        batch = next(self._iterator)
        if _FAULT in batch:
            raise data.DataError(batch[_FAULT].numpy().tobytes().decode())
        return batch


class _Draws:
    """What Paddle takes for a sampler: something that can be iterated again."""

    def __init__(self, request, replica):
        self._request, self._replica = request, replica

    def __iter__(self):
        return data.draws(self._request, self._replica)


def _collated(collate, samples):
    """A batch, or what is wrong with one of its samples: only arrays come from a loader."""
    for sample in samples:
        if isinstance(sample, data.DataError):
            return {_FAULT: np.frombuffer(str(sample).encode(), np.uint8)}
    return collate(samples)


def _begin(parent, loader):
    """In a new loader process."""
    lifetime.die_with(parent)
