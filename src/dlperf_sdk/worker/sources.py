"""The table of data sources: by name, the function that opens one for a trainer."""

import itertools
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Mapping

from dlperf_sdk.worker.interface import Unsupported

if TYPE_CHECKING:
    from dlperf_sdk.worker.base_trainer import BaseTrainer

Source = Callable[["BaseTrainer"], Iterator[Any]]
"""Returns a data source's batches for a trainer, on its devices, without end."""


def synthetic(trainer: "BaseTrainer") -> Iterator[Any]:
    """Repeat the canonical batch, which stays on the devices."""
    return itertools.repeat(trainer.canonical_batch())


def synthetic_host(trainer: "BaseTrainer") -> Iterator[Any]:
    """Copy the canonical batch from the host to the devices for every step."""
    return map(trainer.place, itertools.repeat(trainer.stage(trainer.host_batches())))


def images(trainer: "BaseTrainer") -> Iterator[Any]:
    """Load JPEGs, which Pillow decodes."""
    from dlperf_sdk.worker.jpeg import JpegImages

    return trainer.load(JpegImages)


def text(trainer: "BaseTrainer") -> Iterator[Any]:
    """Load the arrays that were prepared of text."""
    from dlperf_sdk.worker.loading import TokenArrays

    return trainer.load(TokenArrays)


SOURCES: Dict[str, Source] = {
    "synthetic": synthetic,
    "synthetic-host": synthetic_host,
    "images": images,
    "text": text,
}
"""A trainer with another way to serve one has a table of its own: `{**SOURCES, "images": …}`."""


def open_source(trainer: "BaseTrainer", sources: Mapping[str, Source]) -> Iterator[Any]:
    """Return the batches of the data source that the request names.

    Raises:
        Unsupported: the table has no such data source.
    """
    name = trainer.request.data["source"]
    if name not in sources:
        raise Unsupported(
            "the plugin %s cannot read the data source %r; choose one of %s"
            % (trainer.request.framework, name, ", ".join(sorted(sources)))
        )
    return sources[name](trainer)
