"""The interface of models: framework-neutral training workloads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

import attrs
from attrs import frozen

from dlperf_sdk.documents.field_types import PositiveCount, Schema
from dlperf_sdk.interfaces.framework import NoOptions
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.run_spec import RunSpec

Shape = Annotated[tuple[PositiveCount, ...], Schema(maxItems=32)]


@frozen
class Parameter:
    """One trainable parameter of a model, an entry of its manifest."""

    name: str
    """Name of the parameter."""
    shape: Shape
    """Length of each dimension. Convolutions are OIHW, linear layers (out, in). A plugin transposes where its
    framework has another order."""
    init: Mapping[str, Any]
    """Initialization of the canonical weights: see `dlperf_sdk.worker.canonical`."""
    decay: bool = True
    """True if the optimizer's weight decay applies to the parameter. The name does not imply it."""

    @property
    def size(self) -> int:
        """Number of elements of the parameter."""
        product = 1
        for length in self.shape:
            product *= length
        return product


@frozen
class Input:
    """One input of the model. All values describe a single sample."""

    name: str
    """Name of the input."""
    shape: Shape
    """Lengths of its dimensions in one sample."""
    dtype: Annotated[str, Schema(enum=["float32", "int64"])]
    """Type of the elements: `float32` or `int64`."""
    fill: Mapping[str, Any]
    """Contents of the canonical batch: see `dlperf_sdk.worker.canonical`."""
    is_label: bool = False
    """True for the small input, such as the labels, by which the core tells samples apart. Each model has exactly
    one."""


@frozen
class Term:
    """One line of a FLOP count: a layer or a group of layers."""

    name: str
    """Name of the layer or group."""
    macs: int
    """Multiply-accumulates per sample in the forward pass."""
    passes: int = 3
    """Matrix products per training step: 3 for forward, gradient of the input and gradient of the weight; 2 where
    the input needs no gradient."""

    @property
    def flops(self) -> int:
        """Floating-point operations per sample and training step; a multiply-accumulate counts as two."""
        return 2 * self.macs * self.passes


@frozen
class Optimizer:
    """The optimizer and its published hyper-parameters."""

    kind: str
    """`sgd` (with momentum) or `adamw` (decoupled weight decay)."""
    numbers: Mapping[str, float | None]
    """`learning_rate` and `weight_decay`, with `momentum` (sgd) or `beta1`, `beta2` and `epsilon` (adamw).
    `clip_norm` is the limit of the common gradient norm; None or absent: no clipping. `warmup_steps` is the
    number of steps over which the policy `warmup` raises the rate from zero to `warmup_learning_rate`.
    `dlperf_sdk.worker.schedule` computes the rate of each step."""
    source: str
    """Publication of the numbers."""


class Model(ABC):
    """A training workload that any framework can implement. Registered in the group `dlperf_sdk.models`."""

    name: ClassVar[str]
    """The name used for selection; the entry point carries the same."""
    Options: ClassVar[type[Any]] = NoOptions
    """An attrs class: the model's options, set with `--set NAME=VALUE`."""
    trainers: ClassVar[Mapping[str, str]] = {}
    """Framework name → trainer, as ``module:attribute``, for frameworks whose plugins do not know this model."""
    has_images: ClassVar[bool] = False
    """True if its inputs are images, so that there is a memory layout to choose."""
    unit: ClassVar[str] = "samples/s"
    """Unit of the throughput: `img/s`, `seq/s`."""
    references: ClassVar[Path | None] = None
    """Document of the schema `reference` with float64 loss trajectories, which the verdict `parity` compares
    every framework with. None: the verdict is inconclusive."""

    @abstractmethod
    def parameters(self, options: Any) -> tuple[Parameter, ...]:
        """Return the manifest of trainable parameters, in the order of the forward pass.

        Args:
            options: The model's options, an instance of its class attribute `Options`.
        """

    @abstractmethod
    def inputs(self, options: Any) -> tuple[Input, ...]:
        """Return the inputs of one sample.

        Args:
            options: The model's options, an instance of its class attribute `Options`.
        """

    @abstractmethod
    def flops(self, options: Any) -> tuple[Term, ...]:
        """Return the FLOPs per sample and training step, one term per layer or group of layers.

        Only matrix products and convolutions count, not elementwise operations.

        Args:
            options: The model's options, an instance of its class attribute `Options`.
        """

    @abstractmethod
    def optimizer(self, options: Any, global_batch_size: int) -> Optimizer:
        """Return the optimizer and its hyper-parameters for a global batch size.

        Args:
            options: The model's options, an instance of its class attribute `Options`.
            global_batch_size: Samples per optimization step over all devices.
        """

    def data_sources(self, options: Any) -> frozenset[str]:
        """Return the names of the data sources that can feed the model, such as `synthetic` and `images`.

        A source can feed the model if it provides all inputs of the model. A source that needs an option of the model
        can feed only models that have this option.

        Args:
            options: The model's options, an instance of its class attribute `Options`.
        """
        inputs = {model_input.name for model_input in self.inputs(options)}
        names = {field.name for field in attrs.fields(self.Options)}
        return frozenset(source.name for source in DATA_SOURCES if source.feeds(inputs, names))

    def explain_refusal(self, spec: RunSpec) -> str | None:
        """Return a sentence that says why the model's own trainer cannot run a case; None if it can.

        The trainer is that of the case's framework in `trainers`. The framework's plugin has already accepted the case:
        refuse here what the plugin supports and this trainer does not, such as a compiler. Never refuse fp32 without a
        compiler on one device: leave that framework out of `trainers`. The base class refuses nothing.

        Args:
            spec: The case. Its `device` is resolved, never `auto`.
        """
        return None

    def flops_per_sample(self, options: Any) -> int:
        """Return the floating-point operations per sample and training step; a multiply-accumulate counts as two.

        Args:
            options: The model's options, an instance of its class attribute `Options`.
        """
        return sum(term.flops for term in self.flops(options))

    def parameter_count(self, options: Any) -> int:
        """Return the number of elements of all trainable parameters.

        Args:
            options: The model's options, an instance of its class attribute `Options`.
        """
        return sum(parameter.size for parameter in self.parameters(options))


def entry_to_dict(value: Any) -> Any:
    """Return a `Parameter` or an `Input` as a dict of JSON values, whose keys are the names of its fields, in order."""
    return attrs.asdict(value, value_serializer=lambda _, __, v: list(v) if isinstance(v, tuple) else v)
