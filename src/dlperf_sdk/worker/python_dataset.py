"""The data source `python-dataset`: a Python generator of batches inside the framework's class of datasets."""

from typing import Any, Callable, Dict, Iterable, Iterator, Mapping

import numpy

from dlperf_sdk.worker.loading import PREFETCH, BatchFeed
from dlperf_sdk.worker.request import Request

Generator = Callable[[], Iterator[Dict[str, numpy.ndarray]]]
"""A function that returns an endless iterator over the batches of one replica: NumPy arrays by the input's name."""


def copies_of(batch: Mapping[str, numpy.ndarray]) -> Generator:
    """Return a function of no arguments that returns an endless iterator over copies of a batch.

    Args:
        batch: NumPy arrays by the input's name, which are copied for each batch that is generated.

    Returns:
        The function; the iterators that it returns are independent of each other.
    """

    def generate() -> Iterator[Dict[str, numpy.ndarray]]:
        while True:
            yield {name: values.copy() for name, values in batch.items()}

    return generate


class GeneratorFeed(BatchFeed):
    """A feed of the batches of a Python generator, which runs inside a dataset of the framework.

    A framework's subclass implements `open`. It overrides `count_workers` if several generators run at a time.

    Args:
        generate: Function of no arguments that returns an endless iterator over one replica's batches, dicts of NumPy
            arrays by the input's name.
        request: The case.
    """

    def __init__(self, generate: Generator, request: Request) -> None:
        self.workers = self.count_workers(request)
        super().__init__(
            self.workers * PREFETCH,
            {
                "source": request.data["source"],
                "samples_per_replica": request.batch_size,
                "loader_workers": self.workers,
                "prefetched_batches": self.workers * PREFETCH,
            },
        )
        self._batches: Iterator[Any] = iter(self.open(generate, request))

    def count_workers(self, request: Request) -> int:
        """Return the number of generators that run at a time: by default 1, in this process.

        Args:
            request: The case. A subclass may take the number from its `framework_options`; the default does not use it.
        """
        return 1

    def open(self, generate: Generator, request: Request) -> Iterable[Any]:
        """Start the framework's dataset over a generator, and return an iterable of the batches that it loads.

        The dataset has as many loaders as `count_workers` returned (attribute `workers`). Each loader has its own
        generator, and prefetches up to `PREFETCH` (2) batches.

        Args:
            generate: Function of no arguments that returns an endless iterator over one replica's batches, dicts of
                NumPy arrays by the input's name. Each loader calls it once.
            request: The case.

        Returns:
            An endless iterable over batches in a form that `BaseTrainer.receive` takes; with several loaders, over the
            batches of all of them.
        """
        raise NotImplementedError("a feed of a generator's batches implements open()")

    def close(self) -> None:
        """End the loaders; no batch can be taken afterwards."""
        self._batches = iter(())

    def __next__(self) -> Any:
        return next(self._batches)
