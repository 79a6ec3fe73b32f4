"""The controller half of the MindSpore plugin: what the plugin offers, needs and refuses.

It does not import mindspore.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from attrs import frozen

from dlperf_mindspore.precisions import PRECISIONS
from dlperf_mindspore.processes import STRATEGIES
from dlperf_sdk.interfaces.framework import Capabilities, EnvironmentSpec, Framework
from dlperf_sdk.spec.fields import context, whole_number

_PYTHON = ">=3.11,<3.12"
_REQUIREMENTS = ("mindspore==2.10.0", "numpy>=1.26,<2", "pillow>=11.0")
_MIXED = (
    "The plugin's trainers have no mixed precision yet, and it could not be tested on a CPU. Choose fp32."
)
_NO_SERVERS = (
    "MindSpore's parameter servers are not implemented in this plugin: its replicas synchronize through collectives; "
    "choose all_reduce."
)


@frozen
class MindSporeOptions:
    """The options of the plugin, set with `--set NAME=VALUE`.

    Raises:
        SpecError: An option has a value that is not allowed.
    """

    loader_workers: int = context(
        "Threads per device that read and decode, for images and text.", 2, validator=whole_number(1, 1024)
    )


class MindSpore(Framework):
    """The plugin for MindSpore 2.10: eager (PyNative) or compiled (`mindspore.jit`), with MindSpore's collectives."""

    name = "mindspore"
    runtime = "dlperf_mindspore.worker.runtime:MindSporeRuntime"
    trainers: ClassVar[Mapping[str, str]] = {
        "resnet50": "dlperf_mindspore.worker.resnet50:ResNet50Trainer",
        "bert-base": "dlperf_mindspore.worker.bert_base:BertBaseTrainer",
    }
    processes = "dlperf_mindspore.processes:processes"
    capabilities = Capabilities(
        devices={"cpu", "cuda", "npu"},
        precisions=PRECISIONS,
        compilers={"none", "graph"},
        strategies=STRATEGIES,
        layouts={"auto", "nchw"},
        data={"synthetic", "synthetic-host", "images", "text"},
        accumulation=True,
    )
    unsupported: ClassVar[Mapping[str, str]] = {
        "amp-fp16": _MIXED,
        "amp-bf16": _MIXED,
        "fp16": _MIXED,
        "tf32": "tf32 is a mode of NVIDIA GPUs' matrix units, and is not tested yet; choose fp32.",
        "nhwc": "MindSpore's convolutions on a CPU take NCHW only, and so do the plugin's; leave the layout at auto.",
        "parameter_server": _NO_SERVERS,
        "distributed_replicated": _NO_SERVERS,
        "parameter_server_async": _NO_SERVERS,
        "horovod": "Horovod does not support MindSpore; choose all_reduce.",
        "inductor": "It is torch's; choose graph.",
        "xla": "MindSpore has its own compiler; choose graph.",
        "cinn": "It is Paddle's; choose graph.",
        "communication": (
            "The plugin averages the gradients of a step only, in one all-reduce of MindSpore; choose training and "
            "compute, whose difference is the exposed communication."
        ),
        "nccl": "MindSpore has one library of collectives per device: NCCL on GPUs; leave the option nccl out.",
    }
    tuning_variables = ("ONEDNN_MAX_CPU_ISA",)
    Options: ClassVar[type[Any]] = MindSporeOptions

    def environment(self, device: str, strategy: str, model: str) -> EnvironmentSpec:
        """Return the environment, with a lock file; `device`, `strategy` and `model` make no difference.

        MindSpore has the same build for CPUs, NPUs and GPUs.
        """
        return EnvironmentSpec(
            python=_PYTHON,
            requirements=_REQUIREMENTS,
            lock=Path(__file__).with_name("locks") / "cpu.txt",
        )
