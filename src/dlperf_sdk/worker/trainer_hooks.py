"""Define the hooks of trainers: what a framework's trainer and a model's trainer implement for `BaseTrainer`.

A framework's trainer implements them under the same names and signatures in every plugin; a model's trainer implements
`build`, `outputs` and `loss`. A process may own several replicas: host batches are always lists with one batch per
replica, and `place` turns such a list into what `step` takes. Where a method takes one replica, it is the index within
this process, counted from 0.
"""

import contextlib
from typing import Any, ContextManager, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import numpy

from dlperf_sdk.worker.interface import Trainer

HostBatch = Dict[str, Any]
"""One replica's batch in host memory: the model's inputs by name, each a NumPy array (batch size, …) or what `stage`
made of it."""


class TrainerHooks(Trainer):
    """The hooks that `BaseTrainer` calls.

    A hook that a plugin must implement raises NotImplementedError here; the others have a default.
    """

    loss_scale: float
    """Constant factor of the loss in the backward pass."""
    label_name: Optional[str]
    """Name of the input that tells samples apart; None if the model names none."""
    product_types: List[Any]
    """Data types that `note_output` has seen, or that `observe_settings` found: results of convolutions and matrix
    products."""

    # Hooks of a model's trainer.

    def build(self, options: Mapping[str, Any]) -> Any:
        """Build the model's network, whose trainable parameters have the names in the manifest, `Request.parameters`.

        Args:
            options: The model's options by name, `Request.model_options`.

        Returns:
            The network, in the form that the framework's trainer takes, such as a `torch.nn.Module`. The method
            `outputs` gets this network.
        """
        raise NotImplementedError("a model's trainer implements build()")

    def outputs(self, network: Any, batch: Any) -> Sequence[Any]:
        """Compute the logits of one replica's micro-batch.

        Args:
            network: The network that `build` returned, possibly wrapped or compiled by the framework's trainer.
            batch: The model's inputs by name, on the device.

        Returns:
            One array per head of the model, in the order in which `loss` takes them.
        """
        raise NotImplementedError("a model's trainer implements outputs()")

    def loss(self, outputs: Sequence[Any], batch: Any) -> Any:
        """Return the loss of one replica's micro-batch, a scalar on the device: the mean over its samples.

        Args:
            outputs: The arrays that `outputs` returned for the micro-batch, one per head of the model. A framework's
                trainer may convert them to float32 first.
            batch: The model's inputs by name, on the device.
        """
        raise NotImplementedError("a model's trainer implements loss()")

    # Hooks of a framework's trainer: parameters.

    def assign(self, name: str, parameter: Any, values: numpy.ndarray) -> None:
        """Set one parameter to given values in every replica of this process.

        Args:
            name: The parameter's name in the manifest, `Request.parameters`.
            parameter: The framework's object for the parameter: the value under `name` in the argument of
                `load_canonical_weights`.
            values: float32 in the manifest's shape and layout (convolutions OIHW, linear layers (out, in)), C order.
        """
        raise NotImplementedError("a framework's trainer implements assign()")

    def read_parameter(self, name: str, replica: int) -> numpy.ndarray:
        """Return the current values of one replica's parameter: float32, in the manifest's shape and layout, C order.

        Args:
            name: The parameter's name in the manifest.
            replica: Index of the replica within this process, counted from 0.
        """
        raise NotImplementedError("a framework's trainer implements read_parameter()")

    # Hooks of a framework's trainer: batches.

    def stage(self, batches: List[HostBatch]) -> List[HostBatch]:
        """Return the host batches in the memory from which copies to the devices are fastest; by default, unchanged.

        Args:
            batches: One batch per replica of this process, a dict of NumPy arrays by the input's name.

        Returns:
            One batch per replica, in the same order, as `place` takes them.
        """
        return batches

    def place(self, batches: Sequence[HostBatch]) -> Any:
        """Copy host batches to the devices, and return the batch that `step` takes.

        Args:
            batches: One batch per replica of this process: a dict of NumPy arrays by the input's name, or what `stage`
                returned.
        """
        raise NotImplementedError("a framework's trainer implements place()")

    def receive(self, batches: Sequence[Any]) -> Any:
        """Return the batch that `step` takes, on the devices, from one batch of each loader.

        By default, the batches are dicts of NumPy arrays, and `place` copies them to the devices.

        Args:
            batches: One batch per replica of this process, as the framework's loaders yield them.
        """
        return self.place(batches)

    def slice_batch(self, batch: Any, start: int, stop: int) -> Any:
        """Return the part of a batch on the devices that holds the samples `start` to `stop` - 1 of each replica.

        By default the batch is a dict of arrays whose first axis counts the samples of one replica.

        Args:
            batch: One batch of all replicas on the devices, which `place` or `receive` returned.
            start: Index of the first sample, from 0.
            stop: Index after the last sample.
        """
        return {name: values[start:stop] for name, values in batch.items()}

    def labels(self, batch: Any) -> Any:
        """Return a handle for `read_labels`: the batch's input that the model marks `is_label`, on the devices.

        The handle is None, which stands for unknown labels, if the model marks no input or `batch` is None. It is kept
        until the window is over, so no later batch may overwrite its memory.

        Args:
            batch: One batch of all replicas on the devices, which `place` or `receive` returned; None if the input
                pipeline is part of the framework's graph.
        """
        return None if batch is None or self.label_name is None else batch[self.label_name]

    def read_labels(self, labels: Any) -> List[numpy.ndarray]:
        """Return the labels that a handle of `labels` refers to, one NumPy array (batch size, …) per replica.

        The default serves a process with one replica. Called after the clock stopped.

        Args:
            labels: A handle that `labels` returned, other than None.
        """
        return [numpy.asarray(labels)]

    # Hooks of a framework's trainer: the step.

    def set_learning_rate(self, rate: float) -> None:
        """Set the learning rate of the next update to `rate`."""
        raise NotImplementedError("a framework's trainer implements set_learning_rate()")

    def clear_gradients(self) -> None:
        """Set the gradients to zero or None; called before the first micro-batch of each step."""
        raise NotImplementedError("a framework's trainer implements clear_gradients()")

    def forward(self, piece: Any) -> Any:
        """Compute the loss of a micro-batch in the precision of the request.

        Args:
            piece: One of the micro-batches that `micro_batches` returned.

        Returns:
            The loss, a scalar with a method `backward()`, before `scale_loss`.
        """
        raise NotImplementedError("a framework's trainer implements forward()")

    def scale_loss(self, loss: Any) -> Any:
        """Return the loss times the request's constant loss scale: the value from which the backward pass starts.

        A framework's trainer with a loss scaler also multiplies by the scaler's present scale.

        Args:
            loss: A scalar that `forward` returned, divided by the number of micro-batches.
        """
        return loss if self.loss_scale == 1 else loss * self.loss_scale

    def defer_synchronization(self) -> ContextManager[Any]:
        """Return a context manager within which backward passes do not synchronize gradients with other replicas.

        By default it does nothing, which is right for a framework whose `update` synchronizes the gradients.
        """
        return contextlib.nullcontext()

    def update(self) -> None:
        """Clip the gradients, and update the weights of every replica.

        The order is:

        1. Average the gradients over the replicas, unless the backward passes have done so.
        2. Divide them by the loss scale.
        3. Clip their global norm to the optimizer's `clip_norm`, unless that is None or absent.
        4. Update the weights. If the precision uses a loss scaler and a gradient is not finite, update nothing and add
           1 to `skipped` instead.
        """
        raise NotImplementedError("a framework's trainer implements update()")

    def reset_optimizer(self) -> None:
        """Set moments, step counts and the loss scale to their values before the first step.

        The optimizer stays the same object, and code that was compiled for it stays in use.

        Raises:
            NotImplementedError: This trainer cannot be reset; the audit is then skipped.
        """
        raise NotImplementedError("a framework's trainer implements reset_optimizer()")

    def read_loss(self, loss: Any) -> List[float]:
        """Return the loss that a handle of `train` refers to, one per replica of this process, in their order.

        It blocks until the device has computed the loss. The default serves a process with one replica. Called after
        the clock stopped.

        Args:
            loss: A handle that `train` returned.
        """
        return [float(loss)]

    # Hooks of a framework's trainer: evidence.

    def outputs_and_references(self) -> Tuple[Iterable[Any], Iterable[Any]]:
        """Compute the logits of the canonical batch's first micro-batch in two ways, which `deviation` compares.

        Batch norm uses the batch's statistics, and its running statistics do not change. `deviation` has set `dropout`
        to zero; this method must disable dropout layers that do not read `dropout`. It must call
        `note_output` with outputs in the data types in effect, unless `observe_settings` sets `product_types` itself.

        Returns:
            The logits as `step` computes them, with its kernels and compiler; and the logits of the same weights in
            plain fp32, without TF32. Both have one entry per head, or per head and replica if several replicas are
            computed. The order is the same in both, and each entry is an argument for `widen`.
        """
        raise NotImplementedError("a framework's trainer implements outputs_and_references()")

    def note_output(self, output: Any) -> None:
        """Append the data type of an output to `product_types`.

        Args:
            output: The array that a layer or the network returned; its attribute `dtype` is read.
        """
        self.product_types.append(output.dtype)

    def widen(self, value: Any) -> Any:
        """Return an output in float64: an array with the operators `-` and `**` and the method `sum()`.

        By default, convert `value` to a NumPy array.

        Args:
            value: One entry of the outputs or references that `outputs_and_references` returned.
        """
        return numpy.asarray(value, numpy.float64)

    def observe_settings(self) -> Dict[str, Any]:
        """Return the settings in effect as the framework's objects show them, never as the request names them.

        Called after the program's last step. `product_types` is empty if the program did not call `deviation`.

        Returns:
            A dict of JSON values: `precision`, `compiler`, `layout` and `strategy`, with names that a request has, and
            further facts; None for what is unknown.
        """
        raise NotImplementedError("a framework's trainer implements observe_settings()")
