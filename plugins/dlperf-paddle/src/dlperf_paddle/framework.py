"""The controller half of the PaddlePaddle plugin: what the plugin offers, needs and refuses.

It does not import Paddle.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from attrs import frozen

from dlperf_paddle.precisions import PRECISIONS
from dlperf_paddle.processes import STRATEGIES
from dlperf_sdk.interfaces.framework import (
    Capabilities,
    EnvironmentSpec,
    Framework,
    explain_unused_collective,
)
from dlperf_sdk.interfaces.trace import Events, TraceEvents
from dlperf_sdk.spec.fields import context, factor, whole_number
from dlperf_sdk.spec.run_spec import RunSpec

_PYTHON = ">=3.11,<3.14"
# Paddle imports setuptools without asking for it.
_OTHER_REQUIREMENTS = ("pillow>=11.0", "setuptools")
_CPU = ("paddlepaddle==3.3.*", "numpy>=2.0", *_OTHER_REQUIREMENTS)
# Where a step is skipped, Paddle's GradScaler makes a float of an array of one element, which NumPy 2.4 refuses.
_CUDA = ("paddlepaddle-gpu==3.3.*", "numpy>=2.0,<2.4", *_OTHER_REQUIREMENTS)
_CUDA_INDEX = "https://www.paddlepaddle.org.cn/packages/stable/cu126/"
"""The package index with Paddle's builds for GPUs."""
_NO_SERVERS = (
    "Paddle's parameter servers (fleet) take programs that were built in static mode, and this plugin's networks are "
    "not; choose all_reduce."
)
_TRACE = TraceEvents(operators=Events(category="Operator", name=r"(.+?)(?: dygraph)?\[.*"))
"""Names end with the duration: `matmul dygraph[99.758 us]`. The profiler does not show gloo's collectives, which run
inside `Global_GradNodeAccumulation`."""


@frozen
class PaddleOptions:
    """The options of the plugin, set with `--set NAME=VALUE`.

    Raises:
        SpecError: An option has a value that is not allowed.
    """

    comm_buffer_mb: int = factor(
        "MiB of gradients that are collected before they are averaged, while the backward pass goes on.",
        25,
        validator=whole_number(1, 65536),
    )
    loader_workers: int = context(
        "Parallel loaders per device, for images and text.", 2, validator=whole_number(1, 1024)
    )


class Paddle(Framework):
    """The plugin for PaddlePaddle 3.3: eager, `to_static` or CINN, DataParallel over NCCL or gloo."""

    name = "paddle"
    runtime = "dlperf_paddle.worker.runtime:PaddleRuntime"
    trainers: ClassVar[Mapping[str, str]] = {
        "resnet50": "dlperf_paddle.worker.resnet50:ResNet50Trainer",
        "bert-base": "dlperf_paddle.worker.bert_base:BertBaseTrainer",
    }
    processes = "dlperf_paddle.processes:processes"
    capabilities = Capabilities(
        devices={"cpu", "cuda"},
        precisions=PRECISIONS,
        compilers={"none", "graph", "cinn"},
        strategies=STRATEGIES,
        layouts={"auto", "nchw", "nhwc"},
        data={"synthetic", "synthetic-host", "images", "images-dali", "text"},
        accumulation=True,
        trace=_TRACE,
    )
    unsupported: ClassVar[Mapping[str, str]] = {
        "parameter_server": _NO_SERVERS,
        "distributed_replicated": _NO_SERVERS,
        "parameter_server_async": _NO_SERVERS,
        "horovod": "Horovod does not support Paddle; choose all_reduce, which is Paddle's own DataParallel.",
        "inductor": "It is torch's compiler; choose graph (to_static) or, on a GPU, cinn.",
        "xla": "The plugin does not use XLA; choose graph (to_static) or, on a GPU, cinn.",
        "communication": (
            "Paddle's DataParallel averages gradients in the backward pass, which computes them, and its reducer "
            "cannot be called without it; choose training and compute, whose difference is the exposed communication."
        ),
        "nccl": "Paddle averages gradients through NCCL on GPUs, and gloo is for CPUs only; leave the option nccl out.",
    }
    tuning_variables = (
        "FLAGS_allocator_strategy",
        "FLAGS_conv_workspace_size_limit",
        "FLAGS_cudnn_batchnorm_spatial_persistent",
        "FLAGS_cudnn_deterministic",
        "FLAGS_cudnn_exhaustive_search",
        "FLAGS_fraction_of_gpu_memory_to_use",
    )
    Options: ClassVar[type[Any]] = PaddleOptions

    def environment(self, device: str, strategy: str, model: str) -> EnvironmentSpec:
        """Return the environment for a kind of device, such as `cpu`; `strategy` and `model` make no difference.

        For `cpu` it has the distribution `paddlepaddle`, and a lock file. For other devices it has `paddlepaddle-gpu`
        from Paddle's own index, without a lock file.
        """
        if device == "cpu":
            return EnvironmentSpec(_PYTHON, _CPU, lock=Path(__file__).with_name("locks") / "cpu.txt")
        return EnvironmentSpec(_PYTHON, _CUDA, uv_options=("--extra-index-url", _CUDA_INDEX))

    def explain_refusal(self, spec: RunSpec, options: Any) -> str | None:
        """Return a sentence that says why the plugin refuses the case `spec`; None if it accepts it.

        `options` is a `PaddleOptions`. Refused are:

        - on a CPU: every precision but fp32; also the compiler cinn;
        - the option `comm_buffer_mb`, if it is not at its default and no gradients are averaged.
        """
        default = PaddleOptions().comm_buffer_mb
        if options.comm_buffer_mb != default and (
            reason := explain_unused_collective(spec, "comm_buffer_mb", str(default))
        ):
            return reason
        return None if spec.device == "cuda" else _explain_gpu_only(spec)


def _explain_gpu_only(spec: RunSpec) -> str | None:
    """Return the reason why Paddle's build for CPUs cannot run the case; None if it can."""
    if spec.precision != "fp32":
        return (
            f"On a CPU Paddle's auto_cast always computes in fp32, so {spec.precision} would be a "
            "name only; choose fp32."
        )
    if spec.compiler == "cinn":
        return "Paddle's build for CPUs comes without CINN; choose the compiler graph."
    return None
