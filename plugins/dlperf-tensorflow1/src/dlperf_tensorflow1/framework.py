"""The controller half of the TensorFlow 1 plugin: what the plugin offers, needs and refuses.

It does not import tensorflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from attrs import frozen

from dlperf_sdk.interfaces.framework import Capabilities, EnvironmentSpec, Framework
from dlperf_sdk.interfaces.horovod import HOROVOD, horovod_build
from dlperf_sdk.spec.fields import context, whole_number
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_tensorflow1.precisions import PRECISIONS
from dlperf_tensorflow1.processes import STRATEGIES

_PYTHON = ">=3.7,<3.8"
_PACKAGES = ("numpy==1.18.*", "pillow>=9.5", "protobuf<3.21")
_CPU = ("tensorflow==1.15.5", *_PACKAGES)
_CUDA = ("tensorflow-gpu==1.15.5", *_PACKAGES)
_HOROVOD_FOR_TENSORFLOW = {
    "HOROVOD_WITH_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_WITHOUT_PYTORCH": "1",
}
_NARROW = "The plugin has no such precision with TensorFlow 1.15; choose fp32, or amp-fp16 on a GPU."


@frozen
class TensorFlow1Options:
    """The options of the plugin, set with `--set NAME=VALUE`.

    Raises:
        SpecError: An option has a value that is not allowed.
    """

    loader_workers: int = context(
        "Threads per device that read and decode, for images and text.", 2, validator=whole_number(1, 1024)
    )


class TensorFlow1(Framework):
    """The plugin for TensorFlow 1.15: graphs and sessions; collectives over gRPC, parameter servers, or Horovod."""

    name = "tensorflow1"
    runtime = "dlperf_tensorflow1.worker.runtime:TensorFlow1Runtime"
    trainers: ClassVar[Mapping[str, str]] = {
        "resnet50": "dlperf_tensorflow1.worker.resnet50:ResNet50Trainer",
        "bert-base": "dlperf_tensorflow1.worker.bert_base:BertBaseTrainer",
    }
    processes = "dlperf_tensorflow1.processes:processes"
    capabilities = Capabilities(
        devices={"cpu", "cuda"},
        precisions=PRECISIONS,
        compilers={"none", "xla"},
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
            "text",
        },
        accumulation=True,
        parts={"communication"},
    )
    unsupported: ClassVar[Mapping[str, str]] = {
        "amp-bf16": _NARROW,
        "fp16": _NARROW,
        "tf32": "TensorFlow 1.15 is older than TF32, and its CUDA libraries have none; choose fp32.",
        "parameter_server_async": "The plugin's parameter servers are synchronous; choose parameter_server.",
        "graph": "TensorFlow 1 always runs a graph, which is the compiler none; choose none, or xla.",
        "inductor": "inductor is torch's compiler; choose none, or xla.",
        "cinn": "CINN is Paddle's compiler; choose none, or xla.",
        "nccl": (
            "all_reduce uses TensorFlow's gRPC rings, and Horovod the library that it was built with; leave the option "
            "nccl out."
        ),
    }
    tuning_variables = (
        "TF_CPP_MAX_VLOG_LEVEL",
        "TF_CPP_MIN_LOG_LEVEL",
        "TF_CUDNN_USE_AUTOTUNE",
        "TF_FORCE_GPU_ALLOW_GROWTH",
        "TF_GPU_THREAD_COUNT",
        "TF_GPU_THREAD_MODE",
    )
    Options: ClassVar[type[Any]] = TensorFlow1Options

    def environment(self, device: str, strategy: str, model: str) -> EnvironmentSpec:
        """Return the environment for a kind of device, such as `cpu`, and a strategy; `model` makes no difference.

        For `cpu` it has a lock file; for other devices it has `tensorflow-gpu`, without a lock file. With the strategy
        `horovod`, Horovod is built from source, because PyPI has no wheels of it.
        """
        uses_horovod, on_cpu = strategy == "horovod", device == "cpu"
        packages = (_CPU if on_cpu else _CUDA) + ((*HOROVOD, "setuptools<69") if uses_horovod else ())
        lock = Path(__file__).with_name("locks") / ("cpu-horovod.txt" if uses_horovod else "cpu.txt")
        return EnvironmentSpec(
            _PYTHON,
            packages,
            lock=lock if on_cpu else None,
            source_builds=(horovod_build(device, _HOROVOD_FOR_TENSORFLOW),) if uses_horovod else (),
        )

    def explain_refusal(self, spec: RunSpec, options: Any) -> str | None:
        """Return a sentence that says why the plugin refuses the case `spec`; None if it accepts it.

        On a CPU, it refuses the layout nchw, the precision amp-fp16, and the compiler xla for ResNet-50. `options` is
        not used.
        """
        if spec.precision == "amp-fp16" and spec.device == "cpu":
            return "amp-fp16 is for GPUs only: on CPUs TensorFlow 1.15 has no batch norm in float16; choose fp32."
        if spec.compiler == "xla" and spec.device == "cpu" and spec.model == "resnet50":
            return (
                "On CPUs, XLA of TensorFlow 1.15 takes too long to compile ResNet-50: a step of a small network was "
                "not compiled after two minutes of processor time; choose none."
            )
        if spec.layout == "nchw" and spec.device == "cpu":
            return "TensorFlow 1.15 has convolutions in nchw for GPUs only; leave the layout at auto."
        return None
