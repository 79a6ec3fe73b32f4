"""The controller half of the OneFlow plugin: what the plugin offers, needs and refuses.

It does not import oneflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from attrs import frozen

from dlperf_oneflow.precisions import PRECISIONS
from dlperf_oneflow.processes import STRATEGIES
from dlperf_sdk.interfaces.framework import Capabilities, EnvironmentSpec, Framework
from dlperf_sdk.spec.fields import context, whole_number
from dlperf_sdk.spec.run_spec import RunSpec

_PYTHON = ">=3.10,<3.11"
_REQUIREMENTS = (
    "oneflow==0.9.0",
    "numpy>=1.21,<1.24",
    "pillow>=11.0",
    # One build for CPUs and GPUs, which does not start without these.
    "nvidia-cublas-cu11>=11.11,<12",
    "nvidia-cuda-nvrtc-cu11>=11.8,<12",
    "nvidia-cudnn-cu11>=8.9,<9",
)
_NARROW = "The plugin has no such precision with OneFlow 0.9; choose fp32, or amp-fp16 on a GPU."
_NO_SERVERS = (
    "OneFlow 0.9 has no parameter servers: its replicas synchronize through collectives; choose all_reduce."
)


@frozen
class OneFlowOptions:
    """The options of the plugin, set with `--set NAME=VALUE`.

    Raises:
        SpecError: An option has a value that is not allowed.
    """

    loader_workers: int = context(
        "Parallel loaders per device, for images and text.", 2, validator=whole_number(1, 1024)
    )


class OneFlow(Framework):
    """The plugin for OneFlow 0.9: eager with DistributedDataParallel, or nn.Graph with global tensors."""

    name = "oneflow"
    runtime = "dlperf_oneflow.worker.runtime:OneFlowRuntime"
    trainers: ClassVar[Mapping[str, str]] = {
        "resnet50": "dlperf_oneflow.worker.resnet50:ResNet50Trainer",
        "bert-base": "dlperf_oneflow.worker.bert_base:BertBaseTrainer",
    }
    processes = "dlperf_oneflow.processes:processes"
    capabilities = Capabilities(
        devices={"cpu", "cuda"},
        precisions=PRECISIONS,
        compilers={"none", "graph"},
        strategies=STRATEGIES,
        layouts={"auto", "nchw"},
        data={"synthetic", "synthetic-host", "images", "text"},
        accumulation=True,
    )
    unsupported: ClassVar[Mapping[str, str]] = {
        "amp-bf16": _NARROW,
        "fp16": _NARROW,
        "tf32": "tf32 is a mode of NVIDIA GPUs' matrix units, and is not tested yet; choose fp32.",
        "nhwc": (
            "On a CPU OneFlow's channels-last convolutions and batch norms (ONEFLOW_ENABLE_NHWC) give wrong numbers "
            "and no error; on a GPU they are not tested yet. Leave the layout at auto."
        ),
        "trace": (
            "The profiler of OneFlow 0.9 waits for a GPU when it stops, also if it records the CPU only, and ends the "
            "process where there is none; on a GPU it is not tested yet. Leave out the trace."
        ),
        "parameter_server": _NO_SERVERS,
        "distributed_replicated": _NO_SERVERS,
        "parameter_server_async": _NO_SERVERS,
        "horovod": "Horovod does not support OneFlow; choose all_reduce, which is OneFlow's own.",
        "inductor": "It is torch's compiler; choose graph (nn.Graph).",
        "xla": "OneFlow does not use XLA; choose graph (nn.Graph).",
        "cinn": "It is Paddle's compiler; choose graph (nn.Graph).",
        "communication": (
            "OneFlow averages gradients in the backward pass (DistributedDataParallel) or in the training graph "
            "(nn.Graph), which compute them; choose training and compute, whose difference is the exposed "
            "communication."
        ),
        "nccl": "OneFlow has no other collectives for GPUs than NCCL's; leave the option nccl out.",
    }
    tuning_variables = ("ONEFLOW_ENABLE_NHWC",)
    Options: ClassVar[type[Any]] = OneFlowOptions

    def environment(self, device: str, strategy: str, model: str) -> EnvironmentSpec:
        """Return the environment, with a lock file; `device`, `strategy` and `model` make no difference.

        OneFlow has the same build for CPUs and GPUs.
        """
        return EnvironmentSpec(
            python=_PYTHON,
            requirements=_REQUIREMENTS,
            lock=Path(__file__).with_name("locks") / "cpu.txt",
        )

    def explain_refusal(self, spec: RunSpec, options: Any) -> str | None:
        """Return a sentence that says why the plugin refuses the case `spec`; None if it accepts it.

        Refused are the precision `amp-fp16` on a CPU or with the compiler `graph`, and the compiler `graph` with
        several micro-batches per step. `options` is not used.
        """
        if spec.precision == "amp-fp16" and spec.device == "cpu":
            return (
                "amp-fp16 is for GPUs only: on a CPU OneFlow has no products in a 16-bit type, and its autocast "
                "switches itself off; choose fp32."
            )
        if spec.precision == "amp-fp16" and spec.compiler == "graph":
            return (
                "Mixed precision in OneFlow's graphs (enable_amp) is not verified yet; choose the compiler none, or "
                "fp32."
            )
        if spec.compiler == "graph" and spec.accumulation != 1:
            return (
                "OneFlow's graphs accumulate gradients wrongly on a CPU: in three of four runs single elements of the "
                "first update were others, and not the same in each; choose the compiler none, or accumulation 1."
            )
        return None
