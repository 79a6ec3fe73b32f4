"""The runtime of MXNet in a worker process: devices, arithmetic, and the kvstore or Horovod."""

import os
from contextlib import contextmanager

import mxnet as mx

from dlperf_mxnet.precisions import PRECISIONS
from dlperf_mxnet.processes import STRATEGIES
from dlperf_sdk.worker import horovod
from dlperf_sdk.worker.gpu.requirements import require_gpus
from dlperf_sdk.worker.interface import Runtime

_OUT_OF_MEMORY = ("Failed to allocate CPU Memory", "cudaMalloc retry failed: out of memory", "std::bad_alloc")
"""Parts of MXNet's messages when memory runs out; it has no type of exception for that."""


class MXNetRuntime(Runtime):
    """One process that owns one or more devices: `cpu(0)`, `cpu(1)`, …, or the GPUs in CUDA_VISIBLE_DEVICES.

    Raises:
        Unsupported: There are several replicas, and the plugin lacks the strategy.
    """

    clock, strategies = "lagged", STRATEGIES

    def __init__(self, request, cluster, process):
        super().__init__(request, cluster, process)
        context = mx.gpu if request.device == "cuda" else mx.cpu
        self.contexts = [context(i) for i in range(len(process.devices))]
        """MXNet's devices, one per replica of this process."""
        self.kvstore = None
        """Store that sums the gradients of all replicas; None with Horovod, or if gradients are not synchronized."""
        self.hvd = None
        """Horovod's module; None with other strategies, and until `start`."""
        self._keys = {}
        """Parameter → its key in the kvstore."""
        self._has_summed = False
        """True if Horovod has summed gradients."""

    def start(self):
        """Check the devices, switch TF32 off, set the seeds, and join the other processes by the kvstore or Horovod.

        This sets variables in this process's environment: NVIDIA_TF32_OVERRIDE to 0, MXNET_SAFE_ACCUMULATION to 1 if
        weights are in float16, and MXNET_EXEC_BULK_EXEC_TRAIN to 0 for a trace, because the backward pass would
        otherwise appear as one operator, `ImperativeBulk`.

        Raises:
            Unsupported: There are fewer usable GPUs than the process needs.
            OSError: Horovod's rendezvous server accepted no connection within the longest of `Request.deadlines`.
        """
        request = self.request
        if request.device == "cuda":
            require_gpus("MXNet %s" % mx.__version__, mx.context.num_gpus(), len(self.contexts))
        # No TF32, whatever a library's default is: cuBLAS and cuDNN read it when the first operator needs them.
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
        if PRECISIONS[request.precision].weights == "float16":
            # Sums in float32: the statistics of norms, and means.
            os.environ["MXNET_SAFE_ACCUMULATION"] = "1"
        if request.program == "trace":
            os.environ["MXNET_EXEC_BULK_EXEC_TRAIN"] = "0"  # read before the first backward pass
        self.seed()
        if self.syncs_gradients and request.strategy == "horovod":
            self.hvd = horovod.join("horovod.mxnet", max(request.deadlines.values()))
        elif self.syncs_gradients:
            self.kvstore = mx.kvstore.create(self._kvstore_kind())

    def seed(self):
        """Seed each device's generators with the request's seed plus the replica's global index.

        Returns:
            True on a CPU. False on a GPU, which has several generators that take turns: seeding does not reset which of
            them is next.
        """
        for context, replica in zip(self.contexts, self.process.replicas):
            mx.random.seed(self.request.seed + replica, ctx=context)
        return self.request.device == "cpu"

    def _kvstore_kind(self):
        """Return the name of MXNet's store for the strategy."""
        gpus = self.request.device == "cuda"
        if self.request.strategy == "parameter_server":
            return "dist_device_sync" if gpus else "dist_sync"
        has_nccl = self.request.framework_options["nccl"] and mx.runtime.Features().is_enabled("NCCL")
        return "nccl" if gpus and has_nccl else "device"

    def sum_gradients(self, parameters):
        """Enqueue the sum of the gradients of `parameters` over all replicas, in place; return the number of replicas.

        Without gradient synchronization, do nothing and return 1. With a kvstore, one gradient after another is pushed
        to it and pulled from it, those of the last layers first. Parameter servers only sum gradients; the
        replicas update the weights. With Horovod, MXNet's engine starts the sum of a gradient when the backward pass
        has computed it.

        Args:
            parameters: List of gluon's parameters, in the same order in every call.
        """
        if self.hvd:
            for key, parameter in reversed(list(enumerate(parameters))):
                [gradient] = parameter.list_grad()
                self.hvd.allreduce_(gradient, name="gradient %d" % key, op=self.hvd.Sum, priority=-key)
            self._has_summed = True
            return self.cluster.world_size
        if self.kvstore is None:
            return 1
        for parameter in parameters:
            if parameter not in self._keys:
                self._keys[parameter] = len(self._keys)
                self.kvstore.init(self._keys[parameter], mx.nd.zeros(parameter.shape, dtype=parameter.dtype))
        for parameter in reversed(parameters):
            key, gradients = self._keys[parameter], parameter.list_grad()
            self.kvstore.push(key, gradients, priority=-key)
            self.kvstore.pull(key, gradients, priority=-key)
        return self.cluster.world_size

    def strategy_in_effect(self):
        """Return the strategy by which gradients are summed: `all_reduce`, `parameter_server` or `horovod`.

        Return None if they are not summed, and with Horovod also before the first sum.
        """
        if self._has_summed:
            return "horovod"
        if self.kvstore is None:
            return None
        return "parameter_server" if self.kvstore.type.startswith("dist") else "all_reduce"

    def synchronize(self):
        """Wait until MXNet's engine has executed all enqueued operations.

        Raises:
            MXNetError: An operation failed.
        """
        mx.nd.waitall()

    def wait(self, loss):
        """Wait until a step has finished, its update included; `loss` is what the trainer's `train` returned.

        Raises:
            MXNetError: An operation failed.
        """
        _, updated = loss
        for trace in updated:
            trace.wait_to_read()

    @contextmanager
    def trace(self, path):
        """Return a context manager in which MXNet's profiler records operators; it writes the file `path` at its end.

        The file is in Chrome's trace format. It is not written if an exception leaves the context manager.
        """
        mx.profiler.set_config(profile_symbolic=True, profile_imperative=True, filename=path)
        mx.profiler.set_state("run")
        yield
        mx.nd.waitall()
        mx.profiler.set_state("stop")
        mx.profiler.dump()

    def facts(self):
        """Return a dict of facts about the framework and the devices, for the record.

        The keys are `framework_version`, `devices` (a list of names, one per replica), `features` (a sorted list of the
        names of MXNet's compiled features), `engine` (the value of MXNET_ENGINE_TYPE or its default) and `transport`
        (the text `kvstore` and its kind, such as `kvstore device`; None without gradient synchronization). With
        Horovod, `horovod_version` is added, and `transport` is `nccl` or `gloo`. On GPUs there are also `device_memory`
        (the memory of the first GPU in bytes) and `tf32_override` (the value of NVIDIA_TF32_OVERRIDE).
        """
        report = {
            "framework_version": mx.__version__,
            "devices": [str(context) for context in self.contexts],
            "features": sorted(name for name, feature in mx.runtime.Features().items() if feature.enabled),
            "engine": os.environ.get("MXNET_ENGINE_TYPE", "ThreadedEnginePerDevice"),
            "transport": None if self.kvstore is None else "kvstore " + self.kvstore.type,
            **(horovod.facts(self.hvd, self.request.device) if self.hvd else {}),
        }
        if self.request.device == "cuda":
            free_and_total = [mx.context.gpu_memory_info(context.device_id) for context in self.contexts]
            report.update(
                device_memory=free_and_total[0][1],
                tf32_override=os.environ["NVIDIA_TF32_OVERRIDE"],
            )
        return report

    def is_out_of_memory(self, error):
        """Return True if `error` is a MemoryError, or an MXNetError whose message says that memory ran out."""
        if isinstance(error, MemoryError):
            return True
        return isinstance(error, mx.MXNetError) and any(message in str(error) for message in _OUT_OF_MEMORY)

    def stop(self):
        """Wait for the engine, and leave the kvstore or Horovod.

        Scheduler and servers end after the last trainer has left.

        Raises:
            MXNetError: An operation failed.
        """
        mx.nd.waitall()
        self.kvstore = None
        if self.hvd:
            self.hvd.shutdown()
