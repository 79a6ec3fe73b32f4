"""The base of a framework's trainers: everything that does not depend on the framework.

A framework's trainer derives from it and implements the hooks of `trainer_hooks`; a model's trainer derives from that.
"""

import contextlib
from types import MappingProxyType
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Type,
)

import numpy

from dlperf_sdk.worker import canonical
from dlperf_sdk.worker.batch_accounting import label_of
from dlperf_sdk.worker.interface import InputCounts, Runtime, Step
from dlperf_sdk.worker.loading import BatchFeed, Loader, lay_out
from dlperf_sdk.worker.precision import Precision, name_precision
from dlperf_sdk.worker.processes import Process
from dlperf_sdk.worker.python_dataset import Generator
from dlperf_sdk.worker.request import Request
from dlperf_sdk.worker.schedule import learning_rate
from dlperf_sdk.worker.sources import SOURCES, Source, open_source
from dlperf_sdk.worker.trainer_hooks import HostBatch, TrainerHooks
from dlperf_sdk.worker.unsupported import Unsupported, look_up


class ManifestError(ValueError):
    """The names of the network's trainable parameters are not those of the model's manifest."""


class BaseTrainer(TrainerHooks):
    """The replicas of one model in one process, and their training step.

    The constructor of a framework's trainer builds the replicas.

    Args:
        runtime: The framework's runtime, which has been started.
        request: The case.
        process: This process, whose replicas the trainer owns.

    Raises:
        Unsupported: The class attribute `precisions`, `compilers` or `layouts` lacks the name in the request.
    """

    precisions: Mapping[str, Precision]
    """Data types of each precision that the framework's plugin supports, by the precision's name."""
    sources: Mapping[str, Source] = SOURCES
    """Data sources that the framework's plugin can read, by name."""
    loader: Type[Loader]
    """The framework's loader, for the data sources that read prepared data."""
    generator_feed: Optional[Callable[[Generator, Request], BatchFeed]] = None
    """The framework's subclass of `GeneratorFeed`, for the data source `python-dataset`; None if it has none."""
    compilers: Mapping[str, Any] = MappingProxyType({"none": None})
    """What the framework's trainer needs for each compiler that the framework's plugin supports, by the compiler's
    name."""
    layouts: Sequence[str] = ("nchw",)
    """Layouts of images that the framework's plugin supports, `nchw` and `nhwc`. The request's `auto` is the first."""

    def __init__(self, runtime: Runtime, request: Request, process: Process) -> None:
        super().__init__(runtime, request, process)
        self.precision = look_up("precision", request.precision, self.precisions)
        self.scales_loss, self.loss_scale = request.scales_loss, request.loss_scale
        self.compiler = look_up("compiler", request.compiler, self.compilers)
        layouts = dict(zip(self.layouts, self.layouts), auto=self.layouts[0])
        self.layout = look_up("layout", request.layout, layouts)
        self.dropout: float = request.model_options.get("dropout", 0.0)
        """The dropout rate of the model's options, or 0.0; `deviation` sets it to zero for a time."""
        # The state of a run: what a reset would restore beside the weights and the optimizer.
        self.steps = 0
        """Calls of `step` so far, those included whose update the loss scaler skipped."""
        self.first_step = 0
        """The value of `steps` at which the learning rate schedule starts: `reset` sets it to `steps`, which keeps
        counting."""
        self.skipped: Any = 0
        """Steps whose update the loss scaler skipped: an int, or a number on the device that `int()` reads."""
        self.loaders: List[BatchFeed] = []
        """The feeds of this process's replicas, set when the data source is opened; empty if it needs none, as with
        synthetic data."""
        self.product_types = []
        self._host_batches: Optional[List[HostBatch]] = None
        entry = label_of(request)
        self.label_name = None if entry is None else entry["name"]
        self.assigned: Mapping[str, Any] = {}
        """Parameters by the manifest's names, as `assign` takes them: `reset` sets these to the canonical weights."""

    # Parameters.

    def load_canonical_weights(self, parameters: Mapping[str, Any]) -> None:
        """Set the network's trainable parameters to the canonical weights, and keep `parameters` for `reset`.

        Every replica sets its own parameters and copies none from another replica. Equal digests at the end are
        therefore evidence that the replicas were synchronized. The attribute `assigned` keeps `parameters`.

        Args:
            parameters: Name of a parameter in the manifest, `Request.parameters` → the framework's object for it, which
                `assign` sets.

        Raises:
            ManifestError: The network and the manifest have different parameters.
            ValueError: The manifest has an unknown kind of `init`.
        """
        expected = [entry["name"] for entry in self.request.parameters]
        self._require(sorted(set(expected) - set(parameters)), "the network lacks the manifest's parameters")
        self._require(sorted(set(parameters) - set(expected)), "the manifest lacks the network's parameters")
        self.assigned = parameters
        for name, values in canonical.weights(self.request.parameters, self.request.seed):
            self.assign(name, parameters[name], values)

    def reset(self) -> None:
        """Set the weights, the optimizer's state and the learning rate schedule to those before the first step.

        The parameters that `load_canonical_weights` was given get the canonical weights again.

        Raises:
            NotImplementedError: `reset_optimizer` raises it, since the trainer cannot be reset; the weights and the
                schedule are then unchanged.
            ManifestError: `load_canonical_weights` was never called.
        """
        self.reset_optimizer()
        self.load_canonical_weights(self.assigned)
        self.first_step = self.steps

    def _require(self, difference: List[str], problem: str) -> None:
        if difference:
            raise ManifestError("%s: %s %s" % (self.request.model, problem, ", ".join(difference)))

    def parameters(self, replica: int) -> Iterator[Tuple[str, numpy.ndarray]]:
        """Yield name and values of each parameter of one replica, in the order of the manifest, `Request.parameters`.

        The values are float32 NumPy arrays in C order, with the manifest's shape and layout.

        Args:
            replica: Index of the replica within this process, counted from 0.
        """
        for entry in self.request.parameters:
            yield entry["name"], self.read_parameter(entry["name"], replica)

    # Batches.

    def host_batches(self) -> List[HostBatch]:
        """Return the canonical shards of this process's replicas as NumPy arrays, one batch per replica.

        Images have the trainer's `layout`. The batches are drawn at the first call, which takes seconds for a
        thousand images; later calls return the same list.

        Returns:
            For each replica, in the order of `process.replicas`, a dict: input's name → array (batch size, …) of the
            input's dtype.

        Raises:
            ValueError: An input has an unknown kind of `fill`.
        """
        if self._host_batches is None:
            self._host_batches = [
                lay_out(canonical.batch_of(self.request, replica), self.layout)
                for replica in self.process.replicas
            ]
        return self._host_batches

    def canonical_batch(self) -> Any:
        """Return the canonical shards of this process's replicas as one batch on the devices, as `step` takes it.

        Raises:
            ValueError: An input has an unknown kind of `fill`.
        """
        return self.place(self.host_batches())

    def batches(self) -> Iterator[Any]:
        """Return an endless iterator over the batches of the request's data source, which it copies to the devices.

        A batch has the samples of all replicas of this process. The iterator yields None for each batch if the input
        pipeline is part of the framework's graph. The attribute `loaders` keeps the feeds of the data source.

        Raises:
            Unsupported: The class attribute `sources` lacks the data source, or the plugin cannot read it.
            DataError: The prepared data is missing, or is not what the controller prepared. The iterator raises it,
                too.
            ImportError: A package that the data source needs is not installed.
        """
        return open_source(self, self.sources)

    def load(self, dataset: Callable[[Request, int, str], Any]) -> Iterator[Any]:
        """Start a loader for each replica of this process, and return an endless iterator over batches on the devices.

        A batch is what `receive` makes of one batch from each loader. The attribute `loaders` keeps the loaders, which
        are of the framework's class `loader`.

        Args:
            dataset: A subclass of `loading.Dataset`, or a function that returns such an object. It is called once per
                replica with the request, the global index of the replica, and the layout of images.

        Raises:
            DataError: The prepared data is missing, or is not what the controller prepared. The iterator raises it
                for a sample that cannot be read.
            ImportError: A package that the dataset needs is not installed.
        """
        self.loaders = [
            self.loader(dataset(self.request, replica, self.layout), self.request, replica)
            for replica in self.process.replicas
        ]
        return map(self.receive, zip(*self.loaders))

    def prefetched_batches(self) -> int:
        """Return the largest number of batches that the feed of one replica may hold ready; 0 without feeds."""
        return max((loader.prefetched for loader in self.loaders), default=0)

    def input_counts(self) -> Optional[InputCounts]:
        """Return counts of the batches queued so far: number, seconds to make them, queue depths; None without queues.

        If several queues feed the process, the counts are the sums over these queues.
        """
        counts = [loader.counts for loader in self.loaders if loader.counts is not None]
        return InputCounts(*map(sum, zip(*counts))) if counts else None

    # The step.

    def step(self, batch: Any) -> Step:
        """Enqueue one optimization step over all micro-batches, without waiting for the device.

        `schedule.learning_rate` determines the step's learning rate. The attribute `steps` grows by 1.

        Args:
            batch: One batch of all replicas on the devices, which `place` or `receive` returned.

        Returns:
            The handle of the loss that `train` returned, the number of samples of all replicas of this process, and
            the handle of the batch's labels that `labels` returned, None if they are unknown.

        Raises:
            ValueError: The optimizer's learning rate policy is unknown.
        """
        numbers = self.request.optimizer
        rate = learning_rate(numbers, numbers["policy"], self.steps - self.first_step)
        self.steps += 1
        samples = self.request.batch_size * len(self.process.replicas)
        return Step(self.train(batch, rate), samples, self.labels(batch))

    def take(self, batch: Any) -> Step:
        """Return the labels and the number of samples of a batch, without training on it.

        Args:
            batch: One batch of all replicas on the devices, which `place` or `receive` returned.

        Returns:
            A step whose loss is None, with the handle of the labels and the number of samples of all replicas of this
            process.

        Raises:
            Unsupported: The batch is in the framework's graph, or the model has no labels.
        """
        labels = self.labels(batch)
        if labels is None:
            raise Unsupported(
                "the batches of %s have no labels outside the framework's graph, so the input cannot be measured "
                "alone; choose another data source, or the whole step" % self.request.data["source"]
            )
        return Step(None, self.request.batch_size * len(self.process.replicas), labels)

    def train(self, batch: Any, rate: float) -> Any:
        """Set the learning rate, and enqueue one step.

        Args:
            batch: One batch of all replicas on the devices, which `place` or `receive` returned.
            rate: Learning rate of this step.

        Returns:
            The handle of the loss that `enqueue` returned.
        """
        self.set_learning_rate(rate)
        return self.enqueue(batch)

    def enqueue(self, batch: Any) -> Any:
        """Add up the gradients of all micro-batches, and update the weights, without waiting for the device.

        The learning rate is the one that `set_learning_rate` has set.

        Args:
            batch: One batch of all replicas on the devices, which `place` or `receive` returned.

        Returns:
            The handle of the loss: the sum of what `backward` returned for the micro-batches, which is the mean loss
            over the batch, one value per replica.
        """
        self.clear_gradients()
        pieces = self.micro_batches(batch)
        parts = len(pieces)
        loss = None
        for number, piece in enumerate(pieces, start=1):
            share = self.backward(piece, parts, number == parts)
            loss = share if loss is None else self.add_losses(loss, share)
        self.update()
        return loss

    def backward(self, piece: Any, parts: int, is_last: bool) -> Any:
        """Add the gradients of one micro-batch to those accumulated so far, and return its loss divided by `parts`.

        After the last micro-batch, the gradients are those of the whole batch. They are then also averaged over the
        replicas, unless `update` does this. The loss is a handle on the device; it does not contain the loss scale, and
        no later step may overwrite its memory.

        Args:
            piece: One of the micro-batches that `micro_batches` returned.
            parts: Number of micro-batches in a step.
            is_last: True for the last micro-batch, whose backward pass synchronizes the gradients with other replicas.
        """
        with contextlib.nullcontext() if is_last else self.defer_synchronization():
            loss = self.forward(piece)
            if parts > 1:
                loss = loss / parts
            self.scale_loss(loss).backward()
        return loss.detach()

    def micro_batches(self, batch: Any) -> List[Any]:
        """Split a batch on the devices into the request's number of micro-batches, of equal size.

        Args:
            batch: One batch of all replicas on the devices, which `place` or `receive` returned.

        Returns:
            The micro-batches in the order of the samples; if there is only one, it is the batch itself.
        """
        count = self.request.accumulation
        if count == 1:
            return [batch]
        size = self.request.batch_size // count
        return [self.slice_batch(batch, i * size, (i + 1) * size) for i in range(count)]

    def add_losses(self, loss: Any, other: Any) -> Any:
        """Return the sum of two handles `loss` and `other` that `backward` returned for micro-batches of one step."""
        return loss + other

    def skipped_steps(self) -> int:
        """Return the number of steps so far whose update the loss scaler skipped because a gradient was not finite.

        The call waits for the device if the framework keeps this count there.
        """
        return int(self.skipped)

    # Evidence for what was in effect.

    @contextlib.contextmanager
    def _without_dropout(self) -> Iterator[None]:
        """Set `dropout` to zero while the context lasts."""
        rate, self.dropout = self.dropout, 0.0
        try:
            yield
        finally:
            self.dropout = rate

    def deviation(self) -> Optional[float]:
        """Return ‖y - y32‖ / ‖y32‖ over the logits of the canonical batch's first micro-batch, computed in float64.

        `outputs_and_references` computes the logits twice, while `dropout` is zero: y in the precision of the request,
        and y32 in plain fp32. The deviation is evidence that the requested precision is in effect.

        Returns:
            The deviation; not finite if an output is not finite. Never None in this implementation.

        Raises:
            ZeroDivisionError: All of y32 is zero.
        """
        difference = norm = 0.0
        with self._without_dropout():
            outputs, references = self.outputs_and_references()
        for output, reference in zip(outputs, references):
            y, y32 = self.widen(output), self.widen(reference)
            difference += float(((y - y32) ** 2).sum())
            norm += float((y32**2).sum())
        return float((difference / norm) ** 0.5)

    def name_precision(self, weights: Iterable[Any], tf32: bool) -> Optional[str]:
        """Return the name of the precision in effect, which follows from the data types of weights and of products.

        The data types of products are those in the attribute `product_types`, which `note_output` has collected.

        Args:
            weights: Data types of the weights of convolutions and linear layers, as the network holds them.
            tf32: True if float32 products may be rounded to TF32.

        Returns:
            The name of the precision in `precisions` that has these types; if there is none, the name of the product's
            type. For several combinations of types, all their names, sorted and joined with "+". None if
            `product_types` is empty. An empty text if only `weights` is empty.
        """
        if not self.product_types:
            return None
        return name_precision(self.precisions, weights, self.product_types, tf32)

    def observed(self) -> Dict[str, Any]:
        """Return the settings in effect, as JSON values.

        Returns:
            A dict: `precision`, `compiler`, `layout`, `strategy` and further facts, if `observe_settings` knows them;
            `accumulation`, the request's number of micro-batches; and `data`, the facts of the feed whose replica has
            the fewest samples. Without feeds, as with synthetic data, `data` is absent.
        """
        observed = {name: value for name, value in self.observe_settings().items() if value is not None}
        observed["accumulation"] = self.request.accumulation
        if self.loaders:
            # One replica's samples may be fewer than another's: these facts are of the fewest.
            smallest = min(self.loaders, key=lambda loader: int(loader.facts["samples_per_replica"]))
            observed["data"] = smallest.facts
        return observed
