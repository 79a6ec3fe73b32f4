"""The controller half of the MegEngine plugin: what the plugin offers, needs and refuses.

It does not import megengine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from attrs import frozen

from dlperf_megengine.precisions import PRECISIONS
from dlperf_megengine.processes import STRATEGIES
from dlperf_sdk.interfaces.framework import Capabilities, EnvironmentSpec, Framework
from dlperf_sdk.interfaces.trace import Events, TraceEvents
from dlperf_sdk.spec.fields import context, whole_number

_PYTHON = ">=3.10,<3.11"
_REQUIREMENTS = (
    "megengine==1.13.0",
    "numpy>=1.21,<1.24",
    "opencv-python<4.9",
    "pillow>=11.0",
    # MegEngine imports pkg_resources, which later versions lack.
    "setuptools<81",
)
_MIXED = (
    "On a CPU MegEngine's max-pooling in float16 does not write its output; on a GPU mixed precision is not tested "
    "yet. Choose fp32."
)
_NO_SERVERS = (
    "MegEngine has no parameter servers: its replicas synchronize through collectives; choose all_reduce."
)
_TRACE = TraceEvents(operators=Events(category="Kernel"))
"""The profiler does not show the plugin's own exchange of gradients on CPUs."""


@frozen
class MegEngineOptions:
    """The options of the plugin, set with `--set NAME=VALUE`.

    Raises:
        SpecError: An option has a value that is not allowed.
    """

    loader_workers: int = context(
        "Threads per device that read and decode, for images and text.", 2, validator=whole_number(1, 1024)
    )


class MegEngine(Framework):
    """The plugin for MegEngine 1.13: all-reduce over NCCL, or on the host."""

    name = "megengine"
    runtime = "dlperf_megengine.worker.runtime:MegEngineRuntime"
    trainers: ClassVar[Mapping[str, str]] = {
        "resnet50": "dlperf_megengine.worker.resnet50:ResNet50Trainer",
        "bert-base": "dlperf_megengine.worker.bert_base:BertBaseTrainer",
    }
    processes = "dlperf_megengine.processes:processes"
    capabilities = Capabilities(
        devices={"cpu", "cuda"},
        precisions=PRECISIONS,
        compilers={"none"},
        strategies=STRATEGIES,
        layouts={"auto", "nchw"},
        data={"synthetic", "synthetic-host", "images", "text"},
        accumulation=True,
        trace=_TRACE,
    )
    unsupported: ClassVar[Mapping[str, str]] = {
        "amp-fp16": _MIXED,
        "amp-bf16": _MIXED,
        "fp16": _MIXED,
        "tf32": "tf32 is a mode of NVIDIA GPUs' matrix units, and is not tested yet; choose fp32.",
        "nhwc": "MegEngine's networks are NCHW in this plugin; leave the layout at auto.",
        "parameter_server": _NO_SERVERS,
        "distributed_replicated": _NO_SERVERS,
        "parameter_server_async": _NO_SERVERS,
        "horovod": "Horovod does not support MegEngine; choose all_reduce.",
        "graph": "With jit.trace the first two steps draw the same dropout masks; choose none.",
        "inductor": "It is torch's; choose none.",
        "xla": "MegEngine 1.13 translates to XLA on GPUs only, and that is not tested yet; choose none.",
        "cinn": "It is Paddle's; choose none.",
        "communication": (
            "On GPUs MegEngine averages gradients in the backward pass, and on CPUs the plugin averages those of a "
            "step only; choose training and compute, whose difference is the exposed communication."
        ),
        "nccl": "MegEngine has no other collectives for NVIDIA GPUs than NCCL's; leave the option nccl out.",
    }
    tuning_variables = ("MEGENGINE_INPLACE_UPDATE",)
    Options: ClassVar[type[Any]] = MegEngineOptions

    def environment(self, device: str, strategy: str, model: str) -> EnvironmentSpec:
        """Return the environment, with a lock file; `device`, `strategy` and `model` make no difference.

        MegEngine has the same build for CPUs and GPUs.
        """
        return EnvironmentSpec(
            python=_PYTHON,
            requirements=_REQUIREMENTS,
            lock=Path(__file__).with_name("locks") / "cpu.txt",
        )
