"""The table of data sources: how a trainer gets its batches, and which labels these must have."""

import itertools
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, Mapping, NamedTuple, Optional

from dlperf_sdk.worker.due_labels import Labels, of_canonical_batch, of_images, of_text
from dlperf_sdk.worker.unsupported import Unsupported, look_up

if TYPE_CHECKING:
    from dlperf_sdk.worker.base_trainer import BaseTrainer


class Source(NamedTuple):
    """One data source: a function that opens it, and one that computes the labels that its batches should have."""

    open: Callable[["BaseTrainer"], Iterator[Any]]
    """Returns a trainer's batches, on its devices and as `Trainer.step` takes them, without end."""
    due_labels: Optional[Labels]
    """Returns the labels of these batches. None if they do not follow from the request; then the batches are not
    verified."""


def _synthetic(trainer: "BaseTrainer") -> Iterator[Any]:
    """Return the same canonical batch, on the devices, without end."""
    return itertools.repeat(trainer.canonical_batch())


def _synthetic_host(trainer: "BaseTrainer") -> Iterator[Any]:
    """Return the canonical batch without end, copied from the host's staged memory to the devices for every step."""
    return map(trainer.place, itertools.repeat(trainer.stage(trainer.host_batches())))


def _python_queue(trainer: "BaseTrainer") -> Iterator[Any]:
    """Start a thread per replica that queues copies of the canonical batch; return these, copied to the devices."""
    from dlperf_sdk.worker.python_queue import QueueFeed

    trainer.loaders = [QueueFeed(batch, trainer.request) for batch in trainer.host_batches()]
    return map(trainer.place, zip(*trainer.loaders))


def _python_dataset(trainer: "BaseTrainer") -> Iterator[Any]:
    """Start a dataset of the framework per replica over a generator of copies of the canonical batch.

    Return the batches, copied to the devices.

    Raises:
        Unsupported: The plugin has no such dataset.
    """
    from dlperf_sdk.worker.python_dataset import copies_of

    if trainer.generator_feed is None:
        raise Unsupported(
            "the plugin %s has no dataset over a Python generator; choose python-queue"
            % trainer.request.framework
        )
    trainer.loaders = [
        trainer.generator_feed(copies_of(batch), trainer.request) for batch in trainer.host_batches()
    ]
    return map(trainer.receive, zip(*trainer.loaders))


def _zmq(trainer: "BaseTrainer") -> Iterator[Any]:
    """Connect to the sender of each replica, and return the batches that they send, copied to the devices."""
    from dlperf_sdk.worker.zmq_feed import ZmqFeed
    from dlperf_sdk.worker.zmq_messages import address_of

    request, process = trainer.request, trainer.process
    trainer.loaders = [
        ZmqFeed(
            address_of(request, trainer.runtime.cluster, process.node, replica),
            batch,
            trainer.layout,
            request,
        )
        for replica, batch in zip(process.replicas, trainer.host_batches())
    ]
    return map(trainer.place, zip(*trainer.loaders))


def _images(trainer: "BaseTrainer") -> Iterator[Any]:
    """Start a trainer's loaders of JPEGs, which Pillow decodes; return the batches on the devices."""
    from dlperf_sdk.worker.jpeg import JpegImages

    return trainer.load(JpegImages)


def _images_dali(trainer: "BaseTrainer") -> Iterator[Any]:
    """Start a pipeline of DALI per replica for a trainer's JPEGs; return their batches, copied to the devices."""
    from dlperf_sdk.worker.dali_feed import DaliImages

    trainer.loaders = [
        DaliImages(trainer.request, replica, trainer.layout) for replica in trainer.process.replicas
    ]
    return map(trainer.place, zip(*trainer.loaders))


def _text(trainer: "BaseTrainer") -> Iterator[Any]:
    """Start a trainer's loaders of prepared token arrays; return the batches on the devices, without end."""
    from dlperf_sdk.worker.loading import TokenArrays

    return trainer.load(TokenArrays)


SOURCES: Dict[str, Source] = {
    "synthetic": Source(_synthetic, of_canonical_batch),
    "synthetic-host": Source(_synthetic_host, of_canonical_batch),
    "python-queue": Source(_python_queue, of_canonical_batch),
    "python-dataset": Source(_python_dataset, of_canonical_batch),
    "zmq": Source(_zmq, of_canonical_batch),
    "zmq-tcp": Source(_zmq, of_canonical_batch),
    "images": Source(_images, of_images),
    "images-dali": Source(_images_dali, of_images),
    "text": Source(_text, of_text),
}
"""Name in `dlperf_sdk.spec.data_source` → the data source."""


def replace_sources(**functions: Callable[["BaseTrainer"], Iterator[Any]]) -> Mapping[str, Source]:
    """Return a copy of the table `SOURCES` in which some data sources are opened by other functions.

    Args:
        functions: Name of each data source to change → its new `Source.open`, as in
            `replace_sources(images=load_images)`. The function takes a trainer, and returns an endless iterator over
            batches for this trainer. `Source.due_labels` stays the same.

    Returns:
        A read-only mapping with all names in `SOURCES`. `SOURCES` itself is unchanged.

    Raises:
        Unsupported: A name in `functions` is not in `SOURCES`.
    """
    defined = {
        name: look_up("data source", name, SOURCES)._replace(open=function)
        for name, function in functions.items()
    }
    return MappingProxyType({**SOURCES, **defined})


def open_source(trainer: "BaseTrainer", sources: Mapping[str, Source]) -> Iterator[Any]:
    """Open the data source of the trainer's request, and return an endless iterator over batches on the devices.

    The feeds of the data source, if it has any, are kept in the trainer's `loaders`.

    Args:
        trainer: The trainer, which places the batches on its devices.
        sources: The data sources of the framework's plugin, by name.

    Raises:
        Unsupported: `sources` has no such data source, or the plugin cannot read it.
        DataError: The prepared data is missing, or is not what the controller prepared. The iterator raises it, too.
        ImportError: A package that the data source needs is not installed.
    """
    return look_up("data source", trainer.request.data["source"], sources).open(trainer)
