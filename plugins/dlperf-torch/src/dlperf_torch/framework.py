"""The controller half of the PyTorch plugin: what the plugin offers, needs and refuses. It does not import torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from attrs import evolve

from dlperf_sdk.interfaces.framework import Capabilities, EnvironmentSpec, Framework
from dlperf_sdk.interfaces.horovod import HOROVOD, horovod_build
from dlperf_sdk.interfaces.trace import Events, TraceEvents
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_torch.options import TorchOptions, explain_refused_option
from dlperf_torch.precisions import PRECISIONS
from dlperf_torch.processes import STRATEGIES

_PYTHON = ">=3.11,<3.14"
_REQUIREMENTS = ("torch>=2.11,<2.14", "numpy>=2.0", "pillow>=11.0")
"""The range that the plugin's tests have passed with at both of its ends, on CPUs."""
_HOROVOD_PYTHON = ">=3.11,<3.12"
"""Horovod was built with this version only."""
_HOROVOD_FOR_TORCH = {
    "HOROVOD_WITH_PYTORCH": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_WITHOUT_TENSORFLOW": "1",
    "CMAKE_CXX_COMPILER_LAUNCHER": 'sh;-c;exec "$@" -std=gnu++17;sh',
}
"""torch's headers need C++17. Horovod's CMakeLists.txt removes `-std` from CXXFLAGS and chooses C++14, so the compiler
is launched with one more option at the end of its command. The sources are unchanged."""
_TRACE = TraceEvents(
    operators=Events(category="cpu_op"),
    communication=(
        Events(category="user_annotation", name="(gloo:.*)"),
        Events(category="kernel", name="(nccl\\w*).*"),
    ),
    device=Events(category="kernel|gpu_memcpy|gpu_memset"),
)
"""NCCL's own annotations on the host only enqueue a kernel, so they are no communication."""


class Torch(Framework):
    """The plugin for PyTorch 2.11 to 2.13: eager or inductor, DistributedDataParallel over NCCL or gloo, or Horovod."""

    name = "torch"
    runtime = "dlperf_torch.worker.runtime:TorchRuntime"
    trainers: ClassVar[Mapping[str, str]] = {
        "resnet50": "dlperf_torch.worker.resnet50:ResNet50Trainer",
        "bert-base": "dlperf_torch.worker.bert_base:BertBaseTrainer",
    }
    processes = "dlperf_torch.processes:processes"
    capabilities = Capabilities(
        devices={"cpu", "cuda"},
        precisions=PRECISIONS,
        compilers={"none", "inductor"},
        strategies=STRATEGIES,
        layouts={"auto", "nchw", "nhwc"},
        data={
            "synthetic",
            "synthetic-host",
            "python-queue",
            "python-dataset",
            "zmq",
            "zmq-tcp",
            "images",
            "images-dali",
            "text",
        },
        parts={"communication"},
        accumulation=True,
        trace=_TRACE,
    )
    tuning_variables = (
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
        "TORCH_CPP_LOG_LEVEL",
        "TORCH_DISTRIBUTED_DEBUG",
        "TORCH_NCCL_AVOID_RECORD_STREAMS",
        "TORCH_NCCL_BLOCKING_WAIT",
        "TORCH_NCCL_HIGH_PRIORITY",
        "TP_SOCKET_IFNAME",
    )
    Options: ClassVar[type[Any]] = TorchOptions

    def environment(self, device: str, strategy: str, model: str) -> EnvironmentSpec:
        """Return the environment for a kind of device, such as `cpu`, and a strategy; `model` makes no difference.

        For `cpu` it has torch's build without CUDA packages, and a lock file for every Python version that it supports.
        Other devices have no lock file: uv chooses torch's build for the machine. With the strategy `horovod`, Horovod
        is built from source, because PyPI has no wheels of it.
        """
        on_cpu = device == "cpu"
        spec = EnvironmentSpec(
            python=_PYTHON,
            requirements=_REQUIREMENTS,
            lock=Path(__file__).with_name("locks") / "cpu.txt" if on_cpu else None,
            uv_options=("--torch-backend", "cpu" if on_cpu else "auto"),
        )
        if strategy != "horovod":
            return spec
        return evolve(
            spec,
            python=_HOROVOD_PYTHON,
            requirements=(*_REQUIREMENTS, *HOROVOD, "setuptools"),
            lock=spec.lock and spec.lock.with_name("cpu-horovod.txt"),
            source_builds=(horovod_build(device, _HOROVOD_FOR_TORCH, programs=("sh",)),),
        )

    def required_programs(self, spec: RunSpec) -> tuple[str, ...]:
        """Return a tuple with the C++ compiler's name if inductor compiles `spec` for a CPU; else an empty tuple.

        The name is `g++` if the case does not set the environment variable CXX, else the first word of CXX, such as
        `clang++`. The tuple is also empty if the case sets CXX to the empty text, or to None, which stands for the
        node's own value.
        """
        if (spec.compiler, spec.device) != ("inductor", "cpu"):
            return ()
        compiler = spec.env.get("CXX", "g++")  # None hands on the node's own
        return (compiler.split()[0],) if compiler else ()

    def explain_refusal(self, spec: RunSpec, options: Any) -> str | None:
        """Return a sentence that says why the plugin refuses the case `spec`; None if it accepts it.

        `options` is a `TorchOptions`. An option is refused if it has no effect or no support in the case.
        """
        return explain_refused_option(options, spec)
