"""Refusals of runtimes whose framework finds too few GPUs, or too old ones for the precision."""

import os
from typing import Tuple

from dlperf_sdk.worker.precision import Precision
from dlperf_sdk.worker.unsupported import Unsupported

AMPERE = (8, 0)
"""The least compute capability with TF32 and bfloat16."""


def require_gpus(framework: str, available: int, needed: int = 1) -> None:
    """Check that the framework finds the GPUs that the process needs.

    Args:
        framework: The framework's name and version for the message, and what it was built for if that is known.
        available: Number of GPUs that the framework can use.
        needed: Number of the process's devices.

    Raises:
        Unsupported: `available` is less than `needed`.
    """
    if available < needed:
        raise Unsupported(
            "%s finds %d usable GPUs where %d are needed (CUDA_VISIBLE_DEVICES is %r); check the driver with "
            "nvidia-smi, or run with --device cpu"
            % (framework, available, needed, os.environ.get("CUDA_VISIBLE_DEVICES"))
        )


def require_capability(name: str, capability: Tuple[int, ...], precision: Precision) -> None:
    """Check that a GPU has the number format of a precision.

    Args:
        name: The GPU's name for the message.
        capability: The GPU's compute capability, major and minor, such as (8, 0).
        precision: The precision of the case.

    Raises:
        Unsupported: The precision needs TF32 or bfloat16, and the GPU is older than Ampere.
    """
    if capability < AMPERE and (precision.tf32 or precision.products == "bfloat16"):
        raise Unsupported(
            "%s has compute capability %s; %s needs %s (Ampere) or later: choose fp32"
            % (name, _join(capability), "TF32" if precision.tf32 else "bfloat16", _join(AMPERE))
        )


def _join(capability: Tuple[int, ...]) -> str:
    return ".".join(map(str, capability))
