"""The base of a framework's trainers: everything that does not depend on the framework.

A framework's trainer derives from it and implements the hooks, under the same names and signatures in every plugin; a
model's trainer derives from that and implements `build`, `outputs` and `loss`. A process may own several replicas:
host batches are always lists with one batch per replica, and `place` makes of them what `step` takes.
"""

import contextlib
from typing import (
    Any,
    Callable,
    ContextManager,
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
from dlperf_sdk.worker.interface import Runtime, Step, Trainer
from dlperf_sdk.worker.loading import Loader, lay_out
from dlperf_sdk.worker.precision import Precision, name_precision, precision_named
from dlperf_sdk.worker.processes import Process
from dlperf_sdk.worker.request import Request
from dlperf_sdk.worker.schedule import learning_rate
from dlperf_sdk.worker.sources import SOURCES, Source, open_source

HostBatch = Dict[str, Any]
"""The model's inputs of one replica by name, in host memory."""


class ManifestError(ValueError):
    """The network's parameters are not those of the model's manifest."""


class BaseTrainer(Trainer):
    """One model's replicas in one process, and how they train. The constructor of a framework's trainer builds them."""

    precisions: Mapping[str, Precision]
    """Arithmetic of each precision in this framework."""
    sources: Mapping[str, Source] = SOURCES
    """The function that serves each data source."""
    loader: Type[Loader]
    """The framework's parallel loaders."""
    auto_layout = "nchw"
    """The layout of images where the request leaves the choice to the framework."""

    def __init__(self, runtime: Runtime, request: Request, process: Process) -> None:
        super().__init__(runtime, request, process)
        self.precision = precision_named(request.precision, self.precisions)
        self.scales_loss, self.loss_scale = request.scales_loss, request.loss_scale
        self.layout = self.auto_layout if request.layout == "auto" else request.layout
        self.dropout: float = request.model_options.get("dropout", 0.0)
        """The rate of dropout for networks that take it as an argument: see `without_dropout`."""
        # The state of a run: what a reset would restore beside the weights and the optimizer.
        self.steps = 0
        """Optimization steps so far, skipped ones included."""
        self.first_step = 0
        """The step at which the learning rate schedule starts: a reset moves it, and `steps` goes on."""
        self.skipped: Any = 0
        """Steps that the loss scaler skipped: an int, or a number on the device."""
        self.loaders: List[Loader] = []
        """The loaders of this process's replicas; empty with synthetic data."""
        self.product_types: List[Any] = []
        """The data types of products seen in `deviation`."""
        self._host_batches: Optional[List[HostBatch]] = None
        entry = label_of(request)
        self.label_name: Optional[str] = None if entry is None else entry["name"]
        """The input that tells samples apart."""
        self.assigned: Mapping[str, Any] = {}
        """Parameters by name, as `assign` takes them: what a reset sets to the canonical weights."""

    # Hooks of a model's trainer.

    def build(self, options: Mapping[str, Any]) -> Any:
        """Return the network for the model's options; its parameters have the manifest's names."""
        raise NotImplementedError("a model's trainer implements build()")

    def outputs(self, network: Any, batch: Any) -> Sequence[Any]:
        """Return the logits of `network` (this model's, or it wrapped) for one replica's micro-batch."""
        raise NotImplementedError("a model's trainer implements outputs()")

    def loss(self, outputs: Sequence[Any], batch: Any) -> Any:
        """Return the loss of those outputs, a scalar: the mean over the micro-batch."""
        raise NotImplementedError("a model's trainer implements loss()")

    # Hooks of a framework's trainer: parameters.

    def assign(self, name: str, parameter: Any, values: numpy.ndarray) -> None:
        """Set a parameter to values in the manifest's layout, in every replica of this process."""
        raise NotImplementedError("a framework's trainer implements assign()")

    def read_parameter(self, name: str, replica: int) -> numpy.ndarray:
        """Return one replica's values of a parameter: float32, in the manifest's layout, C order."""
        raise NotImplementedError("a framework's trainer implements read_parameter()")

    # Hooks of a framework's trainer: batches.

    def stage(self, batches: List[HostBatch]) -> List[HostBatch]:
        """Return host batches in the memory from which copies to the devices are fastest."""
        return batches

    def place(self, batches: Sequence[HostBatch]) -> Any:
        """Return NumPy arrays or staged batches, one batch per replica, on the devices: what `step` takes."""
        raise NotImplementedError("a framework's trainer implements place()")

    def receive(self, batches: Sequence[Any]) -> Any:
        """Return a batch of the loaders, one part per replica, on the devices."""
        return self.place(batches)

    def slice_batch(self, batch: Any, start: int, stop: int) -> Any:
        """Return the samples from `start` to `stop` of each replica's batch."""
        return {name: values[start:stop] for name, values in batch.items()}

    def labels(self, batch: Any) -> Any:
        """Return the part of a batch on the devices that tells samples apart; None for unknown.

        It is kept until the window is over: it must be memory of its own, which no later batch overwrites.
        """
        return None if batch is None or self.label_name is None else batch[self.label_name]

    def read_labels(self, labels: Any) -> List[numpy.ndarray]:
        """Return the labels of each replica; by default, those of this process's one replica."""
        return [numpy.asarray(labels)]

    # Hooks of a framework's trainer: the step.

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the next update."""
        raise NotImplementedError("a framework's trainer implements set_learning_rate()")

    def clear_gradients(self) -> None:
        """Set the gradients to zero or None before a step."""
        raise NotImplementedError("a framework's trainer implements clear_gradients()")

    def forward(self, piece: Any) -> Any:
        """Return the loss of a micro-batch in the precision of the request, a scalar that `backward()` starts from."""
        raise NotImplementedError("a framework's trainer implements forward()")

    def scale_loss(self, loss: Any) -> Any:
        """Return the loss, times the loss scale, as the backward pass starts from it."""
        return loss if self.loss_scale == 1 else loss * self.loss_scale

    def defer_synchronization(self) -> ContextManager[Any]:
        """Return a context in which backward passes do not synchronize gradients with other replicas."""
        return contextlib.nullcontext()

    def update(self) -> None:
        """Clip the gradients and update the weights."""
        raise NotImplementedError("a framework's trainer implements update()")

    def reset_optimizer(self) -> None:
        """Set moments, step counts and the loss scale to those before the first step.

        The optimizer stays the same object, and so does what was compiled for it.
        """
        raise NotImplementedError("a framework's trainer implements reset_optimizer()")

    def read_loss(self, loss: Any) -> List[float]:
        """Return the loss of each replica; by default, that of this process's one replica."""
        return [float(loss)]

    # Hooks of a framework's trainer: evidence.

    def outputs_and_references(self) -> Tuple[Iterable[Any], Iterable[Any]]:
        """Return the logits as `step` computes them, and in plain fp32; hand the former to `note_output`."""
        raise NotImplementedError("a framework's trainer implements outputs_and_references()")

    def note_output(self, output: Any) -> None:
        """Add the data type of an output of a layer, or of the network, to those seen in `deviation`."""
        self.product_types.append(output.dtype)

    def widen(self, value: Any) -> Any:
        """Return an output in float64: an array with `-`, `**` and `sum()`. By default it is a NumPy array."""
        return numpy.asarray(value, numpy.float64)

    def observe_settings(self) -> Dict[str, Any]:
        """Return the settings in effect, as the framework's objects show them; None for unknown.

        The keys are the names of the request.
        """
        raise NotImplementedError("a framework's trainer implements observe_settings()")

    # Parameters.

    def load_canonical_weights(self, parameters: Mapping[str, Any]) -> None:
        """Set the network's trainable parameters, by the manifest's names, to the canonical weights.

        Every replica sets its own, instead of copying another's: so equal digests at the end mean something.

        Raises:
            ManifestError: the network and the manifest have different parameters.
        """
        expected = [entry["name"] for entry in self.request.parameters]
        self._require(sorted(set(expected) - set(parameters)), "the network lacks the manifest's parameters")
        self._require(sorted(set(parameters) - set(expected)), "the manifest lacks the network's parameters")
        self.assigned = parameters
        for name, values in canonical.weights(self.request.parameters, self.request.seed):
            self.assign(name, parameters[name], values)

    def reset(self) -> None:
        """Return to the canonical weights, an optimizer without a past, and the schedule's first rate."""
        self.reset_optimizer()
        self.load_canonical_weights(self.assigned)
        self.first_step = self.steps

    def _require(self, difference: List[str], problem: str) -> None:
        if difference:
            raise ManifestError("%s: %s %s" % (self.request.model, problem, ", ".join(difference)))

    def parameters(self, replica: int) -> Iterator[Tuple[str, numpy.ndarray]]:
        """Yield one replica's parameters in the manifest's order and layout."""
        for entry in self.request.parameters:
            yield entry["name"], self.read_parameter(entry["name"], replica)

    # Batches.

    def host_batches(self) -> List[HostBatch]:
        """Return the canonical shards of this process's replicas as NumPy arrays in the network's layout.

        They are drawn once: for a thousand images that takes seconds.
        """
        if self._host_batches is None:
            self._host_batches = [
                lay_out(canonical.batch_of(self.request, replica), self.layout)
                for replica in self.process.replicas
            ]
        return self._host_batches

    def canonical_batch(self) -> Any:
        """Return the canonical shards of this process's replicas, on their devices."""
        return self.place(self.host_batches())

    def batches(self) -> Iterator[Any]:
        """Return the data source's batches, on the devices, without end."""
        return open_source(self, self.sources)

    def load(self, dataset: Callable[[Request, int, str], Any]) -> Iterator[Any]:
        """Return the batches that the framework's loaders make of a dataset, one loader for each replica."""
        self.loaders = [
            self.loader(dataset(self.request, replica, self.layout), self.request, replica)
            for replica in self.process.replicas
        ]
        return map(self.receive, zip(*self.loaders))

    def prefetched_batches(self) -> int:
        """Return how many batches the loaders hold ready; none with synthetic data."""
        return max((loader.prefetched for loader in self.loaders), default=0)

    # The step.

    def step(self, batch: Any) -> Step:
        """Enqueue one optimization step over all micro-batches; nothing in it waits for the device."""
        numbers = self.request.optimizer
        rate = learning_rate(numbers, numbers["policy"], self.steps - self.first_step)
        self.steps += 1
        samples = self.request.batch_size * len(self.process.replicas)
        return Step(self.train(batch, rate), samples, self.labels(batch))

    def train(self, batch: Any, rate: float) -> Any:
        """Compute the gradients of each micro-batch, update with the rate, and return the handle of the loss."""
        self.set_learning_rate(rate)
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
        """Add the gradients of one micro-batch of `parts` to the others'; return its share of the loss.

        After the last one the gradients are those of the whole batch, averaged over the replicas. The share has memory
        of its own, which no later step writes to.
        """
        with contextlib.nullcontext() if is_last else self.defer_synchronization():
            loss = self.forward(piece)
            if parts > 1:
                loss = loss / parts
            self.scale_loss(loss).backward()
        return loss.detach()

    def micro_batches(self, batch: Any) -> List[Any]:
        """Return the parts of a batch whose gradients are accumulated, of equal size."""
        count = self.request.accumulation
        if count == 1:
            return [batch]
        size = self.request.batch_size // count
        return [self.slice_batch(batch, i * size, (i + 1) * size) for i in range(count)]

    def add_losses(self, loss: Any, other: Any) -> Any:
        """Return the sum of the losses that `backward` returned for two micro-batches."""
        return loss + other

    def skipped_steps(self) -> int:
        """Return how many steps the loss scaler skipped, since their gradients were not finite."""
        return int(self.skipped)

    # Evidence for what was in effect.

    @contextlib.contextmanager
    def without_dropout(self) -> Iterator[None]:
        """Set the rate of dropout to zero while the context lasts."""
        rate, self.dropout = self.dropout, 0.0
        try:
            yield
        finally:
            self.dropout = rate

    def deviation(self) -> Optional[float]:
        """Return ‖y - y32‖ / ‖y32‖ over the logits of the canonical batch's first micro-batch."""
        difference = norm = 0.0
        with self.without_dropout():
            outputs, references = self.outputs_and_references()
        for output, reference in zip(outputs, references):
            y, y32 = self.widen(output), self.widen(reference)
            difference += float(((y - y32) ** 2).sum())
            norm += float((y32**2).sum())
        return float((difference / norm) ** 0.5)

    def name_precision(self, weights: Iterable[Any], tf32: bool) -> Optional[str]:
        """Return the name of the precision that was in effect; None before `deviation` saw any products.

        Args:
            weights: Data types of the weights of convolutions and linear layers, as the network holds them.
            tf32: True if float32 products may be rounded to TF32.
        """
        if not self.product_types:
            return None
        return name_precision(self.precisions, weights, self.product_types, tf32)

    def observed(self) -> Dict[str, Any]:
        """Return the settings in effect, under the names of the request."""
        observed = {name: value for name, value in self.observe_settings().items() if value is not None}
        observed["accumulation"] = self.request.accumulation
        if self.loaders:
            # One replica's samples may be fewer than another's: these facts are of the fewest.
            smallest = min(self.loaders, key=lambda loader: int(loader.facts["samples_per_replica"]))
            observed["data"] = smallest.facts
        return observed
