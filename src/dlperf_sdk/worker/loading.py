"""Prepared data as batches: the samples of a replica and their order, and the interface of a framework's loaders."""

import collections
import functools
import multiprocessing.util
import os
from typing import Any, Callable, Deque, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import numpy

from dlperf_sdk.worker import data, lifetime
from dlperf_sdk.worker.interface import InputCounts
from dlperf_sdk.worker.request import Request

PREFETCH = 2
"""Batches that each loader may hold ready: the default of torch, Paddle, gluon and OneFlow."""

Keys = Sequence[Tuple[int, int]]
"""The samples of one batch, each as (draw, sample): see `data.draws`."""


class Dataset:
    """One data source's samples, as one replica reads them; `dataset[keys]` is a batch.

    A subclass implements `batch`, which runs in the loaders' processes or threads.

    Args:
        request: The case.
        replica: The replica's global index.
        layout: The layout of images in batches, `nchw` or `nhwc`.
    """

    def __init__(self, request: Request, replica: int, layout: str) -> None:
        self.request, self.replica, self.layout = request, replica, layout
        self.facts: Dict[str, Any] = {}
        """Facts about the input for the record, as JSON values."""

    def batch(self, keys: Keys) -> Dict[str, numpy.ndarray]:
        """Return the batch of some samples: the model's inputs by name, each a NumPy array (len(keys), …).

        Args:
            keys: A pair for each row, as `data.draws` yields them: the number of samples that the replica has drawn
                before, and the index of the sample.

        Raises:
            DataError: A sample cannot be read.
        """
        raise NotImplementedError("a dataset implements batch()")

    def __getitem__(self, keys: Keys) -> Any:
        """Return the batch, or the DataError in its place: loaders' processes lose the types of exceptions."""
        try:
            return self.batch(keys)
        except data.DataError as error:
            return error


class TokenArrays(Dataset):
    """The arrays of the data source `text`: sequences that were tokenized and masked when the data was prepared.

    Args:
        request: The case.
        replica: The replica's global index.
        layout: Not used.

    Raises:
        DataError: The index or an array is not the one that was prepared.
    """

    def __init__(self, request: Request, replica: int, layout: str) -> None:
        super().__init__(request, replica, layout)
        self.dtypes = {entry["name"]: entry["dtype"] for entry in request.inputs}
        self.arrays = {
            name: numpy.memmap(entry.path, entry.dtype, "r", shape=entry.shape)
            for name, entry in data.read_arrays(request.data).items()
        }

    def batch(self, keys: Keys) -> Dict[str, numpy.ndarray]:
        """Return the samples that `keys` names: a dict from the input's name to a new array (len(keys), …).

        The arrays have the data types of the model's inputs.

        Args:
            keys: One pair per row, as `data.draws` yields them: a number that is not used, and the index of a sample.
        """
        samples = [sample for _, sample in keys]
        return {name: self.arrays[name][samples].astype(dtype) for name, dtype in self.dtypes.items()}


def share_folder_of_sockets() -> None:
    """Create this process's temporary folder now, so that the loader processes that it starts put their sockets there.

    This process removes the folder when it ends. Without this call, each loader process would make its own folder in
    TMPDIR, which stays there if the loader process is killed.
    """
    multiprocessing.util.get_temp_dir()


def tie_to_this_process() -> Callable[[int], None]:
    """Return a function that a loader process calls at its start, so that it is killed when this process ends.

    The function takes the number of the loader, which it does not use, and can be pickled. The loader process must be a
    child of this process; otherwise it exits at once, with code 1.
    """
    return functools.partial(_die_with, os.getpid())


def _die_with(parent: int, loader: int) -> None:
    lifetime.die_with(parent)


class Draws:
    """The keys of a replica's batches, without end, as an iterable that frameworks accept as a batch sampler.

    Each item is a list of pairs (draw, sample), as `data.draws` yields them.

    Args:
        request: The case.
        replica: The replica's global index.
    """

    def __init__(self, request: Request, replica: int) -> None:
        self._request, self._replica = request, replica

    def __iter__(self) -> Iterator[List[Tuple[int, int]]]:
        return data.draws(self._request, self._replica)


class BatchFeed:
    """An endless iterator over one replica's batches, which are prepared in advance.

    Args:
        prefetched: Number of batches that can be ready ahead of the one on which the trainer works.
        facts: Facts about the input for the record, as JSON values; `samples_per_replica` is one of them.
    """

    def __init__(self, prefetched: int, facts: Dict[str, Any]) -> None:
        self.prefetched, self.facts = prefetched, facts

    @property
    def counts(self) -> Optional[InputCounts]:
        """Counts of the batches queued so far: their number, the seconds to make them, and the sum of queue depths.

        None, the default, without a queue.
        """
        return None

    def close(self) -> None:
        """End the threads or processes that prepare the batches; no batch can be taken afterwards.

        Raises:
            NotImplementedError: The subclass does not implement it.
        """
        raise NotImplementedError("a feed of batches implements close()")

    def __iter__(self) -> "BatchFeed":
        return self

    def __next__(self) -> Any:
        raise NotImplementedError("a feed of batches implements __next__()")


class Loader(BatchFeed):
    """A feed of batches of a dataset, which parallel loaders prepare.

    A framework's loader implements `open`. Each batch is that of a whole optimization step. `data.draws` defines its
    samples and their order, whatever the number of loaders. `next()` raises DataError if a sample cannot be read.

    Args:
        dataset: The replica's samples.
        request: The case; the framework's option `loader_workers` is the number of loaders.
        replica: The replica's global index.
    """

    def __init__(self, dataset: Dataset, request: Request, replica: int) -> None:
        self.workers = int(request.framework_options["loader_workers"])
        prefetched = self.count_prefetched()
        facts = dict(
            data.facts(request, replica),
            loader_workers=self.workers,
            prefetched_batches=prefetched,
            **dataset.facts,
        )
        super().__init__(prefetched, facts)
        self._batches: Iterator[Any] = iter(self.open(dataset, Draws(request, replica), request))

    def count_prefetched(self) -> int:
        """Return the maximum number of batches made in advance, a constant: by default `PREFETCH` (2) per loader."""
        return self.workers * PREFETCH

    def open(self, dataset: Dataset, draws: Draws, request: Request) -> Iterable[Any]:
        """Start the framework's loaders; return an iterable over `dataset[keys]` for all `keys` of `draws`, in order.

        A framework's loader implements this. An item of the iterable may be a DataError in place of a batch; the
        loader's `next()` then raises the DataError.

        Args:
            dataset: The samples; indexing it with the keys of a batch returns the batch, a dict of NumPy arrays by the
                input's name, or a DataError.
            draws: An endless iterable over the keys of the batches: a list of pairs (draw, sample) for each batch.
            request: The case.

        Returns:
            An endless iterable. Its batches may be the framework's arrays, if the trainer's `receive` takes them.
        """
        raise NotImplementedError("a loader implements open()")

    def close(self) -> None:
        """End the loaders; no batch can be taken afterwards. Without this, garbage collection may take seconds."""
        self._batches = iter(())

    def __next__(self) -> Any:
        batch = next(self._batches)
        if isinstance(batch, data.DataError):
            # A new exception: one that is stored in its own traceback's frame would keep the loaders alive.
            raise data.DataError(str(batch))
        return batch


class ThreadLoader(Loader):
    """A feed whose batches are prepared by parallel threads: Pillow and NumPy release the interpreter's lock.

    It serves frameworks without a loader of their own, and frameworks whose loader processes cannot be forked, or
    outlive a killed worker. Batches are dicts of NumPy arrays, by the input's name.
    """

    def open(self, dataset: Dataset, draws: Draws, request: Request) -> Iterator[Any]:
        """Yield the dataset's batches in the order of `draws`, while threads prepare the next ones.

        At most `self.prefetched` (attribute of the feed) batches are prepared in advance.

        A DataError of the dataset is yielded in place of its batch; any other exception is raised. When the iterator is
        closed, batches that no thread has begun are not made.

        Args:
            dataset: The samples; indexing it with the keys of a batch returns the batch, a dict of NumPy arrays by the
                input's name, or a DataError.
            draws: An endless iterable over the keys of the batches: a list of pairs (draw, sample) for each batch.
            request: Not used.
        """
        from concurrent.futures import Future, ThreadPoolExecutor  # 3 ms, which most workers do not need

        pool = ThreadPoolExecutor(self.workers)
        pending: "Deque[Future[Any]]" = collections.deque()
        try:
            for keys in draws:
                pending.append(pool.submit(dataset.__getitem__, keys))
                if len(pending) > self.prefetched:
                    yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
            pool.shutdown(wait=False)


def lay_out(arrays: Dict[str, numpy.ndarray], layout: str) -> Dict[str, numpy.ndarray]:
    """Return the arrays of one batch, with images converted from the layout (B, C, H, W) to another one.

    Every array with four dimensions holds images, and is returned contiguous in C order. Other arrays are unchanged.

    Args:
        arrays: NumPy arrays by the names of the model's inputs.
        layout: `nhwc` for (B, H, W, C); any other value keeps (B, C, H, W).
    """
    return {
        name: numpy.ascontiguousarray(values.transpose(0, 2, 3, 1) if layout == "nhwc" else values)
        if values.ndim == 4
        else values
        for name, values in arrays.items()
    }
