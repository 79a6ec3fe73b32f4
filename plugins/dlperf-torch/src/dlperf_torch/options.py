"""The options of the torch plugin, and the reasons to refuse some of them. It does not import torch."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from dlperf_sdk.interfaces.framework import explain_unused_collective, explain_unused_nccl
from dlperf_sdk.spec.fields import check_boolean, context, factor, one_of, optional, whole_number
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_torch.precisions import PRECISIONS as OWN_PRECISIONS

ATTENTION = {"flash": {"cpu"}, "efficient": {"cuda"}, "cudnn": {"cuda"}, "math": {"cpu", "cuda"}}
"""Implementation of scaled dot product attention → the kinds of device on which torch has it with a mask."""


@frozen
class TorchOptions:
    """The options of the plugin, set with `--set NAME=VALUE`. `worker.levers.settle` chooses those that are None.

    Raises:
        SpecError: An option has a value that is not allowed.
    """

    cudnn_benchmark: bool = factor(
        "Let cuDNN time its convolution algorithms in the first steps, and keep the fastest (CUDA).",
        True,
        validator=check_boolean,
    )
    cudnn_benchmark_limit: int = factor(
        "How many of its algorithms cuDNN times for each convolution at most; 0 for all of them (CUDA).",
        10,
        validator=whole_number(0, 1000),
    )
    bucket_cap_mb: int = factor(
        "MiB of gradients that are collected before they are averaged, while the backward pass goes on.",
        25,
        validator=whole_number(1, 65536),
    )
    nccl: bool = factor(
        "Average gradients with NCCL; false: with gloo, over the host's memory (CUDA).",
        True,
        validator=check_boolean,
    )
    fused_optimizer: bool = factor(
        "Update all parameters in one kernel, instead of one operation of the formula after another.",
        True,
        validator=check_boolean,
    )
    cuda_graph: bool | None = factor(
        "Replay the whole training step as one CUDA graph from the third step on; by default on one GPU.",
        None,
        validator=optional(check_boolean),
    )
    max_autotune: bool = factor(
        "Let inductor time several kernels for matrix products and convolutions, and keep the fastest.",
        False,
        validator=check_boolean,
    )
    batch_norm_fp32: bool = factor(
        "Batch norm's input in float32 also in mixed precision (resnet50).", False, validator=check_boolean
    )
    fused_batch_norm: bool | None = factor(
        "Batch norm, residual sum, ReLU and max-pool in Triton kernels; by default with cuda_graph (resnet50).",
        None,
        validator=optional(check_boolean),
    )
    packed_qkv: bool = factor(
        "Query, key and value as one matrix product (bert-base).", False, validator=check_boolean
    )
    vocabulary_multiple: int | None = factor(
        "Word logits are computed for a multiple of so many words; by default 64 on a GPU, else 1 (bert-base).",
        None,
        validator=optional(whole_number(1, 4096)),
    )
    fused_layers: bool | None = factor(
        "All between matrix products in Triton kernels, in 16 bits; by default with cuda_graph (bert-base).",
        None,
        validator=optional(check_boolean),
    )
    attention: str = factor(
        "Implementation of scaled dot product attention: auto, flash, efficient, cudnn or math (bert-base).",
        "auto",
        validator=one_of("auto", *ATTENTION),
    )
    loader_workers: int = context(
        "Parallel loaders per device, for images and text.", 2, validator=whole_number(1, 1024)
    )


OF_MODEL: Mapping[str, str] = {
    "batch_norm_fp32": "resnet50",
    "fused_batch_norm": "resnet50",
    "packed_qkv": "bert-base",
    "vocabulary_multiple": "bert-base",
    "fused_layers": "bert-base",
    "attention": "bert-base",
}
"""Option that changes how one of the models is computed → that model."""


def explain_refused_option(options: TorchOptions, spec: RunSpec) -> str | None:
    """Return a sentence that says why an option cannot have its value in the case `spec`; None if all are accepted.

    An option that is not at its default is refused if it has no effect or no support in the case. `spec.device` must
    not be `auto`.
    """
    for judge in (
        _explain_wrong_model,
        _horovod,
        _training,
        _cuda_graph,
        _nccl,
        _cudnn,
        _attention,
        _explain_fused_batch_norm,
        _fused_layers,
    ):
        if (refused := judge(options, spec)) is not None:
            return refused
    return None


def _explain_wrong_model(options: TorchOptions, spec: RunSpec) -> str | None:
    for name, model in OF_MODEL.items():
        if spec.model != model and _is_changed(options, name):
            return f"{spec.model} has nothing that {name} could change; leave it at {_format_default(name)}."
    return None


def _horovod(options: TorchOptions, spec: RunSpec) -> str | None:
    for name in ("bucket_cap_mb", "nccl"):
        if spec.strategy == "horovod" and _is_changed(options, name):
            return (
                f"Horovod has its own buffers, and the library that it was built with, so {name} changes nothing; "
                f"leave it at {_format_default(name)}, or choose the strategy all_reduce."
            )
    return None


def _training(options: TorchOptions, spec: RunSpec) -> str | None:
    if _is_changed(options, "bucket_cap_mb") and (
        reason := explain_unused_collective(spec, "bucket_cap_mb", _format_default("bucket_cap_mb"))
    ):
        return reason
    if options.max_autotune and spec.compiler != "inductor":
        return "max_autotune tunes what inductor compiles; add --compiler inductor, or leave it at false."
    if not options.fused_optimizer and PRECISIONS[spec.precision].scales_loss:
        return (
            f"Without the fused optimizer the loss scaler of {spec.precision} waits for the device in every step, "
            "which a measured step must not; leave fused_optimizer at true, or choose amp-bf16."
        )
    return None


def _cuda_graph(options: TorchOptions, spec: RunSpec) -> str | None:
    if not options.cuda_graph:
        return None
    if spec.device != "cuda":
        return f"There are no CUDA graphs on {spec.device}; leave cuda_graph at false."
    if spec.topology.devices > 1:
        return "cuda_graph captures no exchange of gradients; choose the topology 1n1d, or leave it at false."
    if not options.fused_optimizer:
        return "cuda_graph needs the fused optimizer, whose counts are on the device; leave fused_optimizer at true."
    return None


def _nccl(options: TorchOptions, spec: RunSpec) -> str | None:
    return explain_unused_nccl(spec, options.nccl)


def _cudnn(options: TorchOptions, spec: RunSpec) -> str | None:
    if spec.device != "cuda":
        for name in ("cudnn_benchmark", "cudnn_benchmark_limit"):
            if _is_changed(options, name):
                return f"There is no cuDNN on {spec.device}; leave {name} at {_format_default(name)}."
    if not options.cudnn_benchmark and _is_changed(options, "cudnn_benchmark_limit"):
        return (
            "Without cudnn_benchmark nothing is timed that cudnn_benchmark_limit could limit; leave that at "
            f"{_format_default('cudnn_benchmark_limit')}."
        )
    return None


def _attention(options: TorchOptions, spec: RunSpec) -> str | None:
    if options.attention == "auto" or spec.device in ATTENTION[options.attention]:
        return None
    available = ", ".join(name for name, devices in ATTENTION.items() if spec.device in devices)
    return (
        f"torch has no attention {options.attention} on {spec.device} that takes a mask, which BERT's input has; "
        f"choose {available}, or leave it at auto."
    )


def _explain_fused_batch_norm(options: TorchOptions, spec: RunSpec) -> str | None:
    if not options.fused_batch_norm:
        return None
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


def _fused_layers(options: TorchOptions, spec: RunSpec) -> str | None:
    if not options.fused_layers:
        return None
    if spec.device != "cuda":
        return f"fused_layers is kernels for GPUs; on {spec.device}, leave it at false."
    if spec.compiler != "none":
        return (
            f"fused_layers is for the compiler none: {spec.compiler} fuses layers itself; leave it at false."
        )
    if OWN_PRECISIONS[spec.precision].products == "float32":
        return f"fused_layers computes in 16 bits, and {spec.precision} does not; leave it at false."
    for name in ("attention", "packed_qkv"):
        if _is_changed(options, name):
            return f"fused_layers has its own attention, and ignores {name}; leave one of the two at its default."
    return None


def _is_changed(options: TorchOptions, name: str) -> bool:
    return bool(getattr(options, name) != getattr(TorchOptions(), name))


def _format_default(name: str) -> str:
    """Return the option's default, as a user types it."""
    value = getattr(TorchOptions(), name)
    return "its default" if value is None else str(value).lower()
