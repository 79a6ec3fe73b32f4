"""The controller half of the TensorFlow plugin: what the plugin offers, needs and refuses.

It does not import tensorflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from dlperf_sdk.interfaces.framework import Capabilities, EnvironmentSpec, Framework
from dlperf_sdk.interfaces.trace import Events, TraceEvents
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_tensorflow import precisions
from dlperf_tensorflow.options import TensorFlowOptions, explain_refused_option
from dlperf_tensorflow.processes import STRATEGIES

_PYTHON = ">=3.11,<3.14"
_CPU = ("tensorflow-cpu==2.21.*", "numpy>=2.0")
_CUDA = ("tensorflow[and-cuda]==2.21.*", "numpy>=2.0")
_ASYNCHRONOUS_SERVERS = (
    "TensorFlow's ParameterServerStrategy has no synchronous variant: no worker waits for another; choose "
    "parameter_server_async, or all_reduce."
)
_TRACE = TraceEvents(
    operators=Events(category="operator"),
    communication=Events(category="operator", name="Collective.*|Nccl.*"),
)


class TensorFlow(Framework):
    """The plugin for TensorFlow 2.21: `tf.function` with or without XLA, mirrored strategies, parameter servers."""

    name = "tensorflow"
    runtime = "dlperf_tensorflow.worker.runtime:TensorFlowRuntime"
    trainers: ClassVar[Mapping[str, str]] = {
        "resnet50": "dlperf_tensorflow.worker.resnet50:ResNet50Trainer",
        "bert-base": "dlperf_tensorflow.worker.bert_base:BertBaseTrainer",
    }
    processes = "dlperf_tensorflow.processes:processes"
    capabilities = Capabilities(
        devices={"cpu", "cuda"},
        precisions=precisions.PRECISIONS,
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
        parts={"communication"},
        accumulation=True,
        trace=_TRACE,
    )
    unsupported: ClassVar[Mapping[str, str]] = {
        "parameter_server": _ASYNCHRONOUS_SERVERS,
        "distributed_replicated": _ASYNCHRONOUS_SERVERS,
        "horovod": (
            "This plugin does not use Horovod; choose all_reduce, TensorFlow's own average of gradients over NCCL or "
            "gRPC rings."
        ),
        "graph": "A tf.function's graph is what runs under none already; choose none, or xla.",
        "inductor": "inductor is torch's compiler; choose xla, which is TensorFlow's.",
        "cinn": "CINN is Paddle's compiler; choose xla, which is TensorFlow's.",
    }
    tuning_variables = (
        "TF_CPP_MAX_VLOG_LEVEL",
        "TF_CPP_MIN_LOG_LEVEL",
        "TF_CUDNN_USE_AUTOTUNE",
        "TF_DETERMINISTIC_OPS",
        "TF_ENABLE_ONEDNN_OPTS",
        "TF_FORCE_GPU_ALLOW_GROWTH",
        "TF_GPU_ALLOCATOR",
        "TF_GPU_THREAD_COUNT",
        "TF_GPU_THREAD_MODE",
        "TF_NUM_INTEROP_THREADS",
        "TF_NUM_INTRAOP_THREADS",
    )
    Options: ClassVar[type[Any]] = TensorFlowOptions

    def environment(self, device: str, strategy: str, model: str) -> EnvironmentSpec:
        """Return the environment for a kind of device, such as `cpu`; `strategy` and `model` make no difference.

        For `cpu` it has the distribution `tensorflow-cpu`, and a lock file. For other devices it has
        `tensorflow[and-cuda]`, without a lock file.
        """
        if device == "cpu":
            return EnvironmentSpec(_PYTHON, _CPU, lock=Path(__file__).with_name("locks") / "cpu.txt")
        return EnvironmentSpec(_PYTHON, _CUDA)

    def explain_refusal(self, spec: RunSpec, options: Any) -> str | None:
        """Return a sentence that says why the plugin refuses the case `spec`; None if it accepts it.

        `options` is a `TensorFlowOptions`. Refused are:

        - the layout nchw on a CPU;
        - with parameter servers: GPUs, XLA, loss scaling, and data sources other than synthetic;
        - an option that is not at its default, if it has no effect or no support in the case.
        """
        if spec.layout == "nchw" and spec.device == "cpu":
            return "TensorFlow's max-pool on a CPU takes nhwc only; leave the layout at auto."
        if spec.strategy == "parameter_server_async" and spec.syncs_gradients:
            reason = _explain_server_limits(spec)
            if reason:
                return reason
        return explain_refused_option(options, spec)


def _explain_server_limits(spec: RunSpec) -> str | None:
    """Return the reason why ParameterServerStrategy cannot run the case, or not with a valid throughput.

    None if it can.
    """
    if spec.device != "cpu":
        return (
            "With parameter_server_async TensorFlow's servers compute. On GPUs they would not get the requested "
            "precision, and their memory would not be measured; choose --device cpu, or all_reduce."
        )
    if spec.compiler == "xla":
        return (
            "XLA compiles what lies on one device, and with parameter_server_async the variables lie on the servers; "
            "choose the compiler none."
        )
    if PRECISIONS[spec.precision].scales_loss:
        return (
            "With parameter_server_async one worker could change the loss scale between another's backward pass and "
            "its update, whose gradients would then be wrong by a factor; choose fp32 or amp-bf16."
        )
    if spec.data.source != "synthetic":
        return (
            "With parameter_server_async the batches are made by TensorFlow's servers, which call no Python, and the "
            f"pipeline for {spec.data.source} does; choose synthetic data, or all_reduce."
        )
    return None
