"""PyTorch, as the controller sees it. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from attrs import frozen

from dlperf_sdk.errors import SpecError
from dlperf_sdk.fields import circumstance, treatment
from dlperf_sdk.interfaces.framework import Capabilities, EnvironmentSpec, Framework
from dlperf_sdk.models.options import whole

_PYTHON = ">=3.11,<3.14"
_REQUIREMENTS = ("torch>=2.11,<2.14", "numpy>=2.0", "pillow>=11.0")
"""The range that the plugin's tests have passed with at both of its ends, on CPUs."""


def _yes_or_no(_: Any, attribute: Any, value: Any) -> None:
    if not isinstance(value, bool):
        raise SpecError(f"{attribute.name} is {value!r}; it must be true or false.")


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
        validator=_yes_or_no,
    )
    bucket_cap_mb: int = treatment(
        "MiB of gradients that are collected before they are averaged, while the backward pass goes on.",
        25,
        validator=whole(1, 65536),
    )
    fused_optimizer: bool = treatment(
        "Update all parameters in one kernel, instead of one operation of the formula after another.",
        True,
        validator=_yes_or_no,
    )
    max_autotune: bool = treatment(
        "Let inductor time several kernels for matrix products and convolutions, and keep the fastest.",
        False,
        validator=_yes_or_no,
    )
    batch_norm_fp32: bool = treatment(
        "Batch norm's input in float32 also in mixed precision (resnet50).", False, validator=_yes_or_no
    )
    fused_batch_norm: bool = treatment(
        "Batch norm, residual sum and ReLU in Triton kernels, forward and backward (resnet50, CUDA, nhwc).",
        False,
        validator=_yes_or_no,
    )
    packed_qkv: bool = treatment(
        "Query, key and value as one matrix product (bert-base).", False, validator=_yes_or_no
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


class Torch(Framework):
    """PyTorch 2.11 to 2.13: eager or inductor, DistributedDataParallel over NCCL or gloo."""

    name = "torch"
    runtime = "dlperf_torch.worker.runtime:TorchRuntime"
    trainers: ClassVar[Mapping[str, str]] = {
        "resnet50": "dlperf_torch.worker.resnet50:ResNet50Trainer",
        "bert-base": "dlperf_torch.worker.bert_base:BertBaseTrainer",
    }
    processes = "dlperf_torch.processes:processes"
    capabilities = Capabilities(
        devices={"cpu", "cuda"},
        precisions={"fp32", "tf32", "amp-fp16", "amp-bf16"},
        compilers={"none", "inductor"},
        strategies={"all_reduce", "independent"},
        layouts={"auto", "nchw", "nhwc"},
        data={"synthetic", "synthetic-host", "images", "text"},
        accumulation=True,
    )
    Options: ClassVar[type[Any]] = TorchOptions

    def environment(self, device: str, strategy: str, model: str) -> EnvironmentSpec:
        """One environment per kind of device; the CPU's has torch's own build, without any CUDA packages.

        The CPU lock holds for every Python of the range, with markers where they differ.
        """
        if device == "cpu":
            return EnvironmentSpec(
                python=_PYTHON,
                requirements=_REQUIREMENTS,
                lock=Path(__file__).with_name("locks") / "cpu.txt",
                uv_options=("--torch-backend", "cpu"),
            )
        return EnvironmentSpec(_PYTHON, _REQUIREMENTS, uv_options=("--torch-backend", "auto"))

    def refuses(self, case: Mapping[str, str], options: Any) -> str | None:
        """What torch cannot do although it can do each part of it."""
        if case["precision"] == "tf32" and case["device"] != "cuda":
            return "tf32 is a mode of NVIDIA GPUs' matrix units; on a CPU, choose fp32 or amp-bf16."
        if case["model"] == "bert-base" and case["layout"] != "auto":
            return (
                f"bert-base has no images whose layout could be {case['layout']}; leave the layout at auto."
            )
        return None
