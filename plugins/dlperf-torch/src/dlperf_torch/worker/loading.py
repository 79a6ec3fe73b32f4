"""torch's own DataLoader: loaders are processes, and batches lie in page-locked memory where there is a GPU."""

import functools

import torch
from torch.utils.data import DataLoader, IterableDataset, default_convert

from dlperf_sdk.worker import loading, python_dataset
from dlperf_sdk.worker.batch_accounting import label_of


class Loader(loading.Loader):
    """An endless iterator over one replica's batches: dicts from input name to CPU tensor.

    On a CPU, the input that the model marks `is_label` is a NumPy array instead.
    """

    def open(self, dataset, draws, request):
        """Return a DataLoader, an iterable of a dataset's batches, dicts of CPU tensors, in the order of `draws`.

        The DataLoader's processes end with this process.

        Args:
            dataset: Object of which `dataset[keys]` is the batch for a list of keys: a dict from input name to NumPy
                array. If a sample cannot be read, it is a DataError, which the DataLoader yields in place of the batch.
            draws: An endless iterable with, for each batch, a list of keys: pairs (number of the draw, sample's index).
            request: The request.
        """
        return _start(self, dataset, draws, request)


class GeneratorFeed(python_dataset.GeneratorFeed):
    """An endless iterator over the batches of a Python generator: dicts of CPU tensors, by the input's name.

    On a CPU, the input that the model marks `is_label` is a NumPy array instead.
    """

    def count_workers(self, request):
        """Return the number of data-loading processes of each trainer, the option `loader_workers` of the request.

        Each process has its own generator.
        """
        return request.framework_options["loader_workers"]

    def open(self, generate, request):
        """Return a DataLoader, an endless iterable of generated batches, dicts of CPU tensors.

        `generate` is a function without arguments that returns an endless iterator over one replica's batches, dicts
        from input name to NumPy array. Each of the DataLoader's processes calls it once. The DataLoader's processes end
        with this process. The number of processes is an option of the `Request` `request`.
        """
        return _start(self, _Generated(generate), None, request)


class _Generated(IterableDataset):
    """The batches of a generator function."""

    def __init__(self, generate):
        self._generate = generate

    def __iter__(self):
        return self._generate()


def _start(feed, dataset, sampler, request):
    """Return a DataLoader for a feed, with the feed's number of processes."""
    loading.share_folder_of_sockets()
    return DataLoader(
        dataset,
        batch_size=None,
        sampler=sampler,
        collate_fn=functools.partial(_convert, label_of(request) if request.device == "cpu" else None),
        num_workers=feed.workers,
        prefetch_factor=loading.PREFETCH,
        pin_memory=request.device == "cuda",
        # Not "spawn": this program is a zip archive, which a new interpreter cannot import as main.
        multiprocessing_context="fork",
        worker_init_fn=loading.tie_to_this_process(),
        # Without it, a number would come from torch's own generator, and move dropout with the source.
        generator=torch.Generator().manual_seed(request.seed),
    )


def _convert(label, batch):
    """Return a batch's arrays as tensors, which lie in shared memory, but for that of the input `label`.

    Labels are kept until the window is over, and each shared tensor would keep a file open.
    """
    tensors = default_convert(batch)
    if label is not None and isinstance(batch, dict):
        tensors.update((name, values) for name, values in batch.items() if name == label["name"])
    return tensors
