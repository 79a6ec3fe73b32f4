"""The table of data sources: by name, how a trainer gets its batches, and which labels are due in them."""

import itertools
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Mapping, NamedTuple, Optional

from dlperf_sdk.worker.due_labels import Labels, of_canonical_batch, of_images, of_text
from dlperf_sdk.worker.interface import Unsupported

if TYPE_CHECKING:
    from dlperf_sdk.worker.base_trainer import BaseTrainer


class Source(NamedTuple):
    """A data source, as workers see it."""

    open: Callable[["BaseTrainer"], Iterator[Any]]
    """Returns the batches for a trainer, on its devices, without end."""
    due_labels: Optional[Labels]
    """Returns the labels of these batches; None if they do not follow from the request: batches are not verified."""


def synthetic(trainer: "BaseTrainer") -> Iterator[Any]:
    """Return the canonical batch, on the devices, without end."""
    return itertools.repeat(trainer.canonical_batch())


def synthetic_host(trainer: "BaseTrainer") -> Iterator[Any]:
    """Return the canonical batch without end, copied from the host to the devices for every step."""
    return map(trainer.place, itertools.repeat(trainer.stage(trainer.host_batches())))


def images(trainer: "BaseTrainer") -> Iterator[Any]:
    """Return the batches of JPEGs, which Pillow decodes, on the devices, without end."""
    from dlperf_sdk.worker.jpeg import JpegImages

    return trainer.load(JpegImages)


def text(trainer: "BaseTrainer") -> Iterator[Any]:
    """Return the batches of the arrays that were prepared of text, on the devices, without end."""
    from dlperf_sdk.worker.loading import TokenArrays

    return trainer.load(TokenArrays)


SOURCES: Dict[str, Source] = {
    "synthetic": Source(synthetic, of_canonical_batch),
    "synthetic-host": Source(synthetic_host, of_canonical_batch),
    "images": Source(images, of_images),
    "text": Source(text, of_text),
}
"""Name in `dlperf_sdk.spec.data_source` → the data source."""


def replace_sources(**functions: Callable[["BaseTrainer"], Iterator[Any]]) -> Mapping[str, Source]:
    """Return the table with another function to open a data source: `replace_sources(images=load_images)`."""
    defined = {name: SOURCES[name]._replace(open=function) for name, function in functions.items()}
    return MappingProxyType({**SOURCES, **defined})


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
    return sources[name].open(trainer)
