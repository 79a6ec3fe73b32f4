"""PyTorch, as the controller sees it. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from attrs import define, field, validators

from dlperf_sdk.interfaces.framework import Capabilities, EnvironmentSpec, Framework

_PYTHON = ">=3.11,<3.14"
_REQUIREMENTS = ("torch==2.13.*", "numpy>=2.0", "pillow>=11.0")


@define
class Options:
    """The plugin's own options."""

    cudnn_benchmark: bool = field(default=True, validator=validators.instance_of(bool))
    """Let cuDNN time its convolution algorithms in the first steps, and keep the fastest. CUDA only."""
    bucket_cap_mb: int = field(default=25, validator=[validators.instance_of(int), validators.ge(1)])
    """Size in MiB of the gradient buckets that DistributedDataParallel reduces while the backward pass goes on."""
    loader_workers: int = field(default=2, validator=[validators.instance_of(int), validators.ge(1)])
    """Parallel loaders per device for the data sources `images` and `text`."""


class Torch(Framework):
    """PyTorch 2.13: eager or inductor, DistributedDataParallel over NCCL or gloo."""

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
    Options: ClassVar[type[Any]] = Options

    def environment(self, device: str, strategy: str, model: str) -> EnvironmentSpec:
        """One environment per kind of device: the CPU build of torch, which brings no CUDA packages, and the other.

        The CPU lock holds for every Python of the range, with markers where they differ.
        """
        if device == "cpu":
            return EnvironmentSpec(
                python=_PYTHON,
                requirements=_REQUIREMENTS,
                lock=Path(__file__).with_name("locks") / "cpu.txt",
                uv_options=("--torch-backend", "cpu"),
            )
        return EnvironmentSpec(python=_PYTHON, requirements=_REQUIREMENTS)

    def refuses(self, case: Mapping[str, str]) -> str | None:
        """What torch cannot do although it can do each part of it."""
        if case["precision"] == "tf32" and case["device"] != "cuda":
            return "tf32 is a mode of NVIDIA GPUs' matrix units; on a CPU, choose fp32 or amp-bf16."
        if case["model"] == "bert-base" and case["layout"] != "auto":
            return f"bert-base has no images whose layout could be {case['layout']}; leave the layout at auto."
        return None
