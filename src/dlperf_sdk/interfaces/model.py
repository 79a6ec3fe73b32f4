"""A model: a framework-neutral training workload."""

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

Shape = Annotated[tuple[PositiveCount, ...], Schema(maxItems=32)]


@frozen
class Parameter:
    """One trainable parameter of the manifest."""

    name: str
    """Its name."""
    shape: Shape
    """Lengths of its dimensions: convolutions are OIHW, linear layers (out, in); a plugin transposes what its framework
    wants otherwise."""
    init: Mapping[str, Any]
    """Initialization of the canonical weights: see `dlperf_sdk.worker.canonical`."""
    decay: bool = True
    """True if the optimizer's weight decay applies to it; the name does not tell."""

    @property
    def size(self) -> int:
        """Number of elements."""
        product = 1
        for length in self.shape:
            product *= length
        return product


@frozen
class Input:
    """One input of the model, as one sample of a batch has it."""

    name: str
    """Its name."""
    shape: Shape
    """Lengths of its dimensions in one sample."""
    dtype: Annotated[str, Schema(enum=["float32", "int64"])]
    """Type of its elements: `float32` or `int64`."""
    fill: Mapping[str, Any]
    """Contents of the canonical batch: see `dlperf_sdk.worker.canonical`."""
    is_label: bool = False
    """True for the small input by which the core tells samples apart, such as the labels: one of each model's."""


@frozen
class Term:
    """One line of the arithmetic behind a FLOP count."""

    name: str
    macs: int
    """Multiply-accumulates per sample in the forward pass."""
    passes: int = 3
    """3: forward, gradient of the input, gradient of the weight. 2 where the input needs no gradient."""

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
    """`learning_rate`, `weight_decay`, and `momentum`, or `beta1`, `beta2`, `epsilon`; `clip_norm`, None or absent
    where nothing is clipped; `warmup_steps`, over which the policy `warmup` ramps the rate up from zero to
    `warmup_learning_rate`. `dlperf_sdk.worker.schedule` makes each step's rate of them."""
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
    """Unit of its throughput: img/s, seq/s."""
    references: ClassVar[Path | None] = None
    """Its float64 trajectories, which the verdict `parity` holds every framework to: a document of the schema
    `reference`. Without one that verdict is inconclusive."""

    @abstractmethod
    def parameters(self, options: Any) -> tuple[Parameter, ...]:
        """Return the manifest of trainable parameters, in the order of the forward pass."""

    @abstractmethod
    def inputs(self, options: Any) -> tuple[Input, ...]:
        """Return the inputs that one sample consists of."""

    @abstractmethod
    def flops(self, options: Any) -> tuple[Term, ...]:
        """Return the arithmetic of one training step per sample, matrix work only, a line per layer or group."""

    @abstractmethod
    def optimizer(self, options: Any, global_batch_size: int) -> Optimizer:
        """Return the optimizer for this global batch size."""

    def data_sources(self, options: Any) -> frozenset[str]:
        """Return the names of the data sources that can feed it, by its inputs and options."""
        inputs = {model_input.name for model_input in self.inputs(options)}
        names = {field.name for field in attrs.fields(self.Options)}
        return frozenset(source.name for source in DATA_SOURCES if source.feeds(inputs, names))

    def flops_per_sample(self, options: Any) -> int:
        """Return the floating-point operations per sample and training step."""
        return sum(term.flops for term in self.flops(options))

    def parameter_count(self, options: Any) -> int:
        """Return the number of trainable parameters."""
        return sum(parameter.size for parameter in self.parameters(options))


def entry_to_dict(value: Any) -> Any:
    """Return a manifest entry (`Parameter`, `Input`) as JSON values."""
    return attrs.asdict(value, value_serializer=lambda _, __, v: list(v) if isinstance(v, tuple) else v)
