"""Description of a model with the options of a case: its parameters, inputs, FLOP count and optimizer."""

from __future__ import annotations

from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.errors import SpecError
from dlperf_sdk.interfaces.model import Input, Model, Optimizer, Parameter


@frozen(kw_only=True)
class ModelDescription:
    """Description of a model for one case, collected from its plugin."""

    parameters: tuple[Parameter, ...]
    """The trainable parameters, in the order of the forward pass."""
    inputs: tuple[Input, ...]
    """The inputs of one sample."""
    optimizer: Optimizer
    """The optimizer for the case's global batch size."""
    parameter_count: int
    """Number of elements of all trainable parameters."""
    flops_per_sample: int
    """Floating-point operations per sample and training step; a multiply-accumulate counts as two."""
    data_sources: frozenset[str]
    """Names of the data sources that can feed the model."""


def describe_model(model: Model, options: Any, global_batch_size: int) -> ModelDescription:
    """Return the description of a model with the given options and global batch size.

    Args:
        model: The model's plugin.
        options: An instance of the model's `Options`.
        global_batch_size: Samples per optimization step over all devices.

    Raises:
        SpecError: With these options a dimension is shorter than 1, there is no parameter, or the FLOP count is
            negative. Errors of the plugin pass unchanged.
    """
    described = ModelDescription(
        parameters=model.parameters(options),
        inputs=model.inputs(options),
        optimizer=model.optimizer(options, global_batch_size),
        parameter_count=model.parameter_count(options),
        flops_per_sample=model.flops_per_sample(options),
        data_sources=model.data_sources(options),
    )
    shapes = [*(entry.shape for entry in described.parameters), *(entry.shape for entry in described.inputs)]
    shortest = min((length for shape in shapes for length in shape), default=1)
    if shortest < 1 or described.parameter_count < 1 or described.flops_per_sample < 0:
        raise SpecError(
            f"With the options {attrs.asdict(options)}, {model.name} would have {described.parameter_count} "
            f"parameters, {described.flops_per_sample} FLOP per sample, and a shape of {shortest}; choose others."
        )
    return described
