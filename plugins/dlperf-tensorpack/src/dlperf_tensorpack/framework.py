"""The controller half of the tensorpack plugin: what the plugin offers, needs and refuses.

It does not import tensorpack.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from dlperf_sdk.interfaces.framework import Capabilities, EnvironmentSpec, Framework
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_tensorpack.processes import STRATEGIES

_PYTHON = ">=3.7,<3.8"
_PACKAGES = ("tensorpack==0.11", "numpy==1.18.*", "pillow>=9.5", "protobuf<3.21")
_CPU = ("tensorflow==1.15.5", *_PACKAGES)
_CUDA = ("tensorflow-gpu==1.15.5", *_PACKAGES)
_MIXED = "The plugin's trainers have no casts and no loss scaling, so they train in fp32 only; choose fp32."
_LOADERS = "The plugin has no loader for prepared data; choose python-queue or python-dataset."


class Tensorpack(Framework):
    """The plugin for tensorpack 0.11 on TensorFlow 1.15: tensorpack's trainers, in one process per node."""

    name = "tensorpack"
    runtime = "dlperf_tensorpack.worker.runtime:TensorpackRuntime"
    trainers: ClassVar[Mapping[str, str]] = {
        "resnet50": "dlperf_tensorpack.worker.resnet50:ResNet50Trainer",
        "bert-base": "dlperf_tensorpack.worker.bert_base:BertBaseTrainer",
    }
    processes = "dlperf_tensorpack.processes:processes"
    packages = ("dlperf_tensorflow1",)
    capabilities = Capabilities(
        devices={"cpu", "cuda"},
        strategies=STRATEGIES,
        layouts={"auto", "nchw", "nhwc"},
        data={"synthetic", "synthetic-host", "python-queue", "python-dataset", "zmq", "zmq-tcp"},
    )
    unsupported: ClassVar[Mapping[str, str]] = {
        "amp-fp16": _MIXED,
        "amp-bf16": _MIXED,
        "fp16": _MIXED,
        "tf32": "TensorFlow 1.15 is older than TF32, and its CUDA libraries have none; choose fp32.",
        "distributed_replicated": (
            "DistributedTrainerReplicated needs a server of TensorFlow on each node, which this plugin does not start; "
            "choose parameter_server."
        ),
        "parameter_server_async": "The plugin does not use tensorpack's AsyncMultiGPUTrainer; choose parameter_server.",
        "horovod": "HorovodTrainer needs Horovod, which this plugin does not install; choose all_reduce.",
        "graph": "TensorFlow 1 always runs a graph, which is the compiler none; choose none.",
        "inductor": "inductor is torch's compiler; choose none.",
        "xla": "The plugin does not enable XLA in tensorpack's sessions; choose none.",
        "cinn": "CINN is Paddle's compiler; choose none.",
        "images": _LOADERS,
        "images-dali": _LOADERS,
        "text": _LOADERS,
        "communication": (
            "tensorpack averages the gradients in the graph of the training step, which computes them first; choose "
            "training and compute, whose difference is the exposed communication."
        ),
        "nccl": (
            "TensorFlow 1.15 has a serious bug with NCCL, of which tensorpack warns, so it averages without NCCL; "
            "leave the option nccl out."
        ),
    }
    tuning_variables = ("TF_CPP_MAX_VLOG_LEVEL", "TF_CPP_MIN_LOG_LEVEL", "TF_FORCE_GPU_ALLOW_GROWTH")

    def environment(self, device: str, strategy: str, model: str) -> EnvironmentSpec:
        """Return the environment for a kind of device, such as `cpu`; `strategy` and `model` make no difference.

        For `cpu` it has a lock file; for other devices it has `tensorflow-gpu`, without a lock file.
        """
        if device == "cpu":
            return EnvironmentSpec(_PYTHON, _CPU, lock=Path(__file__).with_name("locks") / "cpu.txt")
        return EnvironmentSpec(_PYTHON, _CUDA)

    def explain_refusal(self, spec: RunSpec, options: Any) -> str | None:
        """Return a sentence that says why the plugin refuses the case `spec`; None if it accepts it.

        Refused are gradient synchronization over several nodes, and the layout nchw on a CPU. `options` is not used.
        """
        if spec.syncs_gradients and spec.topology.nodes > 1:
            return (
                "tensorpack synchronizes the gradients of several nodes by Horovod, which this plugin does not "
                "install; choose one node, or the strategy independent."
            )
        if spec.layout == "nchw" and spec.device == "cpu":
            return "TensorFlow 1.15 has convolutions in nchw for GPUs only; leave the layout at auto."
        return None
