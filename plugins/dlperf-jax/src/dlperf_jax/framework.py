"""The controller half of the JAX plugin: what the plugin offers, needs and refuses. It does not import jax."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from dlperf_jax.options import JaxOptions, explain_refused_option
from dlperf_jax.precisions import PRECISIONS
from dlperf_jax.processes import STRATEGIES
from dlperf_sdk.interfaces.framework import Capabilities, EnvironmentSpec, Framework
from dlperf_sdk.interfaces.trace import Events, TraceEvents
from dlperf_sdk.spec.run_spec import RunSpec

_PYTHON = ">=3.11,<3.15"
_CPU = ("jax>=0.10.2,<0.13", "optax>=0.2.8,<0.3", "numpy>=2.0", "pillow>=11.0")
"""The plugin is tested at the lower end of the range: JAX 0.10.2 with Python 3.11, on CPUs."""
_CUDA = ("jax[cuda12]>=0.10.2,<0.13", *_CPU[1:])
_NO_SERVERS = "JAX has no parameter servers: its replicas meet in collectives; choose all_reduce."
_XLA = "XLA compiles every step of JAX, under the compiler none as well; choose none."
_TRACE = TraceEvents(
    operators=Events(name=r"(.+?)(?:\.\d+)?", argument="hlo_op"),
    communication=Events(
        name=r"((?:psum|all-reduce|all-gather|reduce-scatter).*?)(?:\.\d+)?", argument="hlo_op"
    ),
)


class Jax(Framework):
    """The plugin for JAX 0.10 to 0.12: steps compiled by XLA, data parallel with `shard_map` over NCCL or gloo."""

    name = "jax"
    runtime = "dlperf_jax.worker.runtime:JaxRuntime"
    trainers: ClassVar[Mapping[str, str]] = {
        "resnet50": "dlperf_jax.worker.resnet50:ResNet50Trainer",
        "bert-base": "dlperf_jax.worker.bert_base:BertBaseTrainer",
    }
    processes = "dlperf_jax.processes:processes"
    capabilities = Capabilities(
        devices={"cpu", "cuda"},
        precisions=PRECISIONS,
        compilers={"none"},
        strategies=STRATEGIES,
        layouts={"auto", "nhwc"},
        data={"synthetic", "synthetic-host", "images", "text"},
        parts={"communication"},
        accumulation=True,
        trace=_TRACE,
    )
    unsupported: ClassVar[Mapping[str, str]] = {
        "nchw": "XLA chooses the memory layout itself, and arrays are NHWC in this plugin; leave the layout at auto.",
        "parameter_server": _NO_SERVERS,
        "distributed_replicated": _NO_SERVERS,
        "parameter_server_async": _NO_SERVERS,
        "horovod": "Horovod does not support JAX; choose all_reduce, which is JAX's own.",
        "xla": _XLA,
        "graph": _XLA,
        "inductor": "inductor is torch's compiler. " + _XLA,
        "cinn": "CINN is Paddle's compiler. " + _XLA,
        "nccl": "Between NVIDIA GPUs, XLA has no other collectives than NCCL's; leave the option nccl out.",
    }
    tuning_variables = (
        "TF_CPP_MAX_VLOG_LEVEL",
        "TF_CPP_MIN_LOG_LEVEL",
        "XLA_PYTHON_CLIENT_ALLOCATOR",
        "XLA_PYTHON_CLIENT_MEM_FRACTION",
        "XLA_PYTHON_CLIENT_PREALLOCATE",
    )
    Options: ClassVar[type[Any]] = JaxOptions

    def environment(self, device: str, strategy: str, model: str) -> EnvironmentSpec:
        """Return the environment for a kind of device, such as `cpu`; `strategy` and `model` make no difference.

        For `cpu` it has a lock file for every Python version that the plugin supports, and no CUDA packages. For other
        devices it has JAX's packages for CUDA 12, and no lock file.
        """
        if device == "cpu":
            return EnvironmentSpec(_PYTHON, _CPU, lock=Path(__file__).with_name("locks") / "cpu.txt")
        return EnvironmentSpec(_PYTHON, _CUDA)

    def explain_refusal(self, spec: RunSpec, options: Any) -> str | None:
        """Return a sentence that says why the plugin refuses the case `spec`; None if it accepts it.

        `options` is a `JaxOptions`. An option is refused if it has no effect in the case.
        """
        return explain_refused_option(options, spec)
