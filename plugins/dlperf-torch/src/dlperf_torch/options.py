"""The plugin's own options, and which of them mean something to a case. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from dlperf_sdk.errors import SpecError
from dlperf_sdk.fields import circumstance, treatment, whole, yes_or_no
from dlperf_sdk.spec import RunSpec

ATTENTION = ("auto", "flash", "efficient", "cudnn", "math")


def _known_attention(_: Any, attribute: Any, value: Any) -> None:
    if value not in ATTENTION:
        raise SpecError(f"{attribute.name} is {value!r}; it must be one of {', '.join(ATTENTION)}.")


@frozen
class TorchOptions:
    """The plugin's own options.

    Raises:
        SpecError: an option has an impossible value.
    """

    cudnn_benchmark: bool = treatment(
        "Let cuDNN time its convolution algorithms in the first steps, and keep the fastest (CUDA).",
        True,
        validator=yes_or_no,
    )
    bucket_cap_mb: int = treatment(
        "MiB of gradients that are collected before they are averaged, while the backward pass goes on.",
        25,
        validator=whole(1, 65536),
    )
    fused_optimizer: bool = treatment(
        "Update all parameters in one kernel, instead of one operation of the formula after another.",
        True,
        validator=yes_or_no,
    )
    max_autotune: bool = treatment(
        "Let inductor time several kernels for matrix products and convolutions, and keep the fastest.",
        False,
        validator=yes_or_no,
    )
    batch_norm_fp32: bool = treatment(
        "Batch norm's input in float32 also in mixed precision (resnet50).", False, validator=yes_or_no
    )
    fused_batch_norm: bool = treatment(
        "Batch norm, residual sum and ReLU in Triton kernels, forward and backward (resnet50, CUDA, nhwc).",
        False,
        validator=yes_or_no,
    )
    packed_qkv: bool = treatment(
        "Query, key and value as one matrix product (bert-base).", False, validator=yes_or_no
    )
    vocabulary_multiple: int = treatment(
        "Word logits are computed for a multiple of so many words, and those too many cut off (bert-base).",
        1,
        validator=whole(1, 4096),
    )
    attention: str = treatment(
        "Implementation of scaled dot product attention: auto, flash, efficient, cudnn or math (bert-base).",
        "auto",
        validator=_known_attention,
    )
    loader_workers: int = circumstance(
        "Parallel loaders per device, for images and text.", 2, validator=whole(1, 1024)
    )


OF_MODEL: Mapping[str, str] = {
    "batch_norm_fp32": "resnet50",
    "fused_batch_norm": "resnet50",
    "packed_qkv": "bert-base",
    "vocabulary_multiple": "bert-base",
    "attention": "bert-base",
}
"""Options that change how one of the models is computed."""


def means_nothing(options: TorchOptions, spec: RunSpec) -> str | None:
    """Which option was changed and means nothing to a case, or cannot be had in it; None if none was."""
    plain = TorchOptions()
    for name, model in OF_MODEL.items():
        neutral = getattr(plain, name)
        if spec.model != model and getattr(options, name) != neutral:
            return f"{spec.model} has nothing that {name} could change; leave it at {_shown(neutral)}."
    if not spec.gradients_meet and options.bucket_cap_mb != plain.bucket_cap_mb:
        return (
            "No gradients meet in this case, so bucket_cap_mb changes nothing; leave it at "
            f"{plain.bucket_cap_mb}, or choose several devices and the strategy all_reduce."
        )
    if spec.device != "cuda" and not options.cudnn_benchmark:
        return f"There is no cuDNN on {spec.device}; leave cudnn_benchmark at true."
    if options.max_autotune and spec.compiler != "inductor":
        return "max_autotune tunes what inductor compiles; add --compiler inductor, or leave it at false."
    if not options.fused_optimizer and spec.precision == "amp-fp16":
        return (
            "Without the fused optimizer the loss scaler of amp-fp16 waits for the device in every step, which a "
            "measured step must not; leave fused_optimizer at true, or choose amp-bf16."
        )
    return _fused_batch_norm(options, spec) if options.fused_batch_norm else None


def _fused_batch_norm(options: TorchOptions, spec: RunSpec) -> str | None:
    if spec.device != "cuda":
        return f"fused_batch_norm is a kernel for GPUs; on {spec.device}, leave it at false."
    if spec.layout == "nchw":
        return "fused_batch_norm is written for the layout nhwc; choose that, or leave it at false."
    if spec.compiler != "none":
        return (
            f"fused_batch_norm is for the compiler none: {spec.compiler} fuses batch norm itself; leave it at "
            "false."
        )
    if options.batch_norm_fp32:
        return (
            "fused_batch_norm has statistics in float32 already, and batch_norm_fp32 is another kernel; choose one "
            "of the two."
        )
    return None


def _shown(value: Any) -> str:
    """As it is typed."""
    return str(value).lower()
