"""The controller half of the Apache MXNet plugin: what the plugin offers, needs and refuses.

It does not import mxnet.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from attrs import frozen

from dlperf_mxnet.precisions import PRECISIONS
from dlperf_mxnet.processes import STRATEGIES
from dlperf_sdk.interfaces.framework import (
    Capabilities,
    EnvironmentSpec,
    Framework,
    explain_unused_nccl,
)
from dlperf_sdk.interfaces.horovod import HOROVOD, horovod_build
from dlperf_sdk.interfaces.trace import Events, TraceEvents
from dlperf_sdk.spec.fields import check_boolean, context, factor, whole_number
from dlperf_sdk.spec.run_spec import RunSpec

_PYTHON = ">=3.10,<3.12"
# NumPy 1.24 took away `np.bool`, which MXNet 1.9.1 uses on import.
_NUMPY = "numpy>=1.21,<1.24"
_HOROVOD_FOR_MXNET = {
    "HOROVOD_WITH_MXNET": "1",
    "HOROVOD_WITHOUT_PYTORCH": "1",
    "HOROVOD_WITHOUT_TENSORFLOW": "1",
}
_TF32 = (
    "MXNet 1.9.1 has no switch for TF32, and it is not tested whether NVIDIA's libraries enable it; choose fp32, for "
    "which it is switched off."
)
_TRACE = TraceEvents(operators=Events(category="operator"))
"""The kvstore sums gradients with ordinary operators and copies, so communication cannot be told from work."""


@frozen
class MXNetOptions:
    """The options of the plugin, set with `--set NAME=VALUE`.

    Raises:
        SpecError: An option has a value that is not allowed.
    """

    nccl: bool = factor(
        "With all_reduce: sum gradients with NCCL if MXNet has it; false: in the kvstore device (CUDA).",
        True,
        validator=check_boolean,
    )
    loader_workers: int = context(
        "Parallel loaders per device, for images and text.", 2, validator=whole_number(1, 1024)
    )


class MXNet(Framework):
    """The plugin for MXNet 1.9.1: imperative or hybridized gluon, gradients synchronized by a kvstore or Horovod."""

    name = "mxnet"
    runtime = "dlperf_mxnet.worker.runtime:MXNetRuntime"
    trainers: ClassVar[Mapping[str, str]] = {
        "resnet50": "dlperf_mxnet.worker.resnet50:ResNet50Trainer",
        "bert-base": "dlperf_mxnet.worker.bert_base:BertBaseTrainer",
    }
    processes = "dlperf_mxnet.processes:processes"
    capabilities = Capabilities(
        devices={"cpu", "cuda"},
        precisions=PRECISIONS,
        compilers={"none", "graph"},
        strategies=STRATEGIES,
        layouts={"auto", "nchw", "nhwc"},
        data={"synthetic", "synthetic-host", "images", "text"},
        accumulation=True,
        trace=_TRACE,
    )
    unsupported: ClassVar[Mapping[str, str]] = {
        "tf32": _TF32,
        "distributed_replicated": (
            "Its workers update the weights in their own copies, and the servers only average the gradients; choose "
            "parameter_server."
        ),
        "parameter_server_async": (
            "MXNet's dist_async has its servers update the weights, and here the workers do, because BERT's clip needs "
            "the norm of all gradients; choose parameter_server, which is synchronous."
        ),
        "inductor": "It is torch's compiler; choose graph (hybridize).",
        "xla": "MXNet does not use XLA; choose graph (hybridize).",
        "cinn": "It is Paddle's compiler; choose graph (hybridize).",
        "communication": (
            "The plugin passes the gradients of a step only to MXNet's kvstore or Horovod; choose training and "
            "compute, whose difference is the exposed communication."
        ),
    }
    tuning_variables = (
        "MXNET_CPU_WORKER_NTHREADS",
        "MXNET_CUDNN_AUTOTUNE_DEFAULT",
        "MXNET_ENGINE_TYPE",
        "MXNET_EXEC_BULK_EXEC_TRAIN",
        "MXNET_GPU_MEM_POOL_RESERVE",
        "MXNET_GPU_MEM_POOL_TYPE",
        "MXNET_GPU_WORKER_NTHREADS",
        "MXNET_KVSTORE_BIGARRAY_BOUND",
        "MXNET_KVSTORE_REDUCTION_NTHREADS",
        "MXNET_KVSTORE_USETREE",
    )
    Options: ClassVar[type[Any]] = MXNetOptions

    def environment(self, device: str, strategy: str, model: str) -> EnvironmentSpec:
        """Return the environment for a kind of device, such as `cpu`, and a strategy; `model` makes no difference.

        For `cpu` it has the distribution `mxnet`, and a lock file. For other devices it has `mxnet-cu112`, without a
        lock file. With the strategy `horovod`, Horovod is built from source, because PyPI has no wheels of it.
        """
        uses_horovod, on_cpu = strategy == "horovod", device == "cpu"
        packages = (*HOROVOD, "setuptools<69") if uses_horovod else ()
        lock = Path(__file__).with_name("locks") / ("cpu-horovod.txt" if uses_horovod else "cpu.txt")
        return EnvironmentSpec(
            _PYTHON,
            ("mxnet==1.9.1" if on_cpu else "mxnet-cu112==1.9.1", _NUMPY, *packages),
            lock=lock if on_cpu else None,
            source_builds=(horovod_build(device, _HOROVOD_FOR_MXNET),) if uses_horovod else (),
        )

    def explain_refusal(self, spec: RunSpec, options: Any) -> str | None:
        """Return a sentence that says why the plugin refuses the case `spec`; None if it accepts it.

        `options` is an `MXNetOptions`. Refused are:

        - the strategy `all_reduce` over several nodes;
        - the memory layout `nhwc` on a CPU;
        - a precision that MXNet lacks on the device, for the model, or with several micro-batches per step;
        - the option `nccl`: on a CPU, any value that the spec sets; on a GPU, false, unless gradients are averaged with
          the strategy `all_reduce`.
        """
        cpu = spec.device == "cpu"
        if spec.strategy == "all_reduce" and spec.topology.nodes > 1:
            return (
                "MXNet's own all-reduce (the kvstores `device` and `nccl`) stays within a node. Over several nodes, "
                "choose --strategy parameter_server (the kvstore `dist_sync`) or --strategy horovod."
            )
        reason = _explain_missing_precision(spec, cpu)
        if reason:
            return reason
        if cpu and spec.layout == "nhwc":
            return "MXNet's convolutions take NHWC on GPUs only; on a CPU, choose nchw."
        if spec.strategy == "horovod" and not options.nccl:
            return (
                "Horovod uses the library that it was built with, so nccl changes nothing; leave it at true."
            )
        return explain_unused_nccl(spec, options.nccl)


def _explain_missing_precision(spec: RunSpec, cpu: bool) -> str | None:
    """Return the reason why the case cannot use its precision; None if it can."""
    precision = spec.precision
    if cpu and precision in ("amp-fp16", "fp16"):
        return (
            "MXNet has convolutions and matrix products in fp16 for GPUs only, and raises an error on a CPU; "
            "choose fp32 or amp-bf16."
        )
    if not cpu and precision == "amp-bf16":
        return "MXNet computes in bfloat16 through oneDNN, on CPUs only; on a GPU, choose amp-fp16."
    if precision == "amp-bf16" and spec.model == "bert-base":
        return (
            "MXNet multiplies batches of matrices on a CPU in float32 and float64 only (batch_dot), so attention would "
            "stay in float32 under the name amp-bf16; choose fp32."
        )
    if precision in ("amp-bf16", "amp-fp16") and spec.accumulation != 1:
        return (
            "MXNet's casts for mixed precision overwrite the gradients that accumulation adds to, and say nothing "
            "(seen with amp-bf16: half of the update was missing); choose fp32, or accumulation 1."
        )
    return None
