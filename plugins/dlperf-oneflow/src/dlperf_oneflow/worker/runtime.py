"""The runtime of OneFlow in a worker process: device, arithmetic, and the check that all processes have joined."""

import os

import oneflow as flow

from dlperf_oneflow.precisions import PRECISIONS
from dlperf_oneflow.processes import STRATEGIES
from dlperf_sdk.worker.gpu.requirements import require_gpus
from dlperf_sdk.worker.interface import Runtime
from dlperf_sdk.worker.unsupported import Unsupported, look_up

_OUT_OF_MEMORY = ("out of memory", "OutOfMemory", "std::bad_alloc", "Cannot allocate memory")
"""Parts of the messages of OneFlow and its libraries when memory runs out."""


class OneFlowRuntime(Runtime):
    """One process that owns one device: `cpu`, or the GPU whose index is the process's LOCAL_RANK.

    Raises:
        Unsupported: There are several replicas, and the plugin lacks the strategy.
    """

    clock, strategies = "lagged", STRATEGIES

    def __init__(self, request, cluster, process):
        super().__init__(request, cluster, process)
        self.replica, self.replicas = process.replicas[0], cluster.world_size
        # Collectives insist on it, on a CPU as well.
        self.device = flow.device("%s:%s" % (request.device, os.environ.get("LOCAL_RANK", "0")))

    def start(self):
        """Check the device and the number of processes, and set TF32 and the seed.

        The import of OneFlow has already joined the other processes. The seed is the request's plus the replica's
        global index. NVIDIA_TF32_OVERRIDE is set to 0 or 1 in this process's environment.

        Raises:
            Unsupported: The plugin lacks the precision, no usable GPU is found, or OneFlow has not joined as many
                processes as the case has.
        """
        request = self.request
        precision = look_up("precision", request.precision, PRECISIONS)
        if request.device == "cuda":
            require_gpus("OneFlow %s" % flow.__version__, int(flow.cuda.is_available()))
        if self.syncs_gradients and flow.env.get_world_size() != self.cluster.world_size:
            raise Unsupported(
                "OneFlow sees %d processes where %d should meet; it reads WORLD_SIZE and the like when it is imported: "
                "leave them out of env" % (flow.env.get_world_size(), self.cluster.world_size)
            )
        # TF32 is decided where cuBLAS and cuDNN are first used.
        os.environ["NVIDIA_TF32_OVERRIDE"] = "1" if precision.tf32 else "0"
        flow.manual_seed(request.seed + self.replica)

    def synchronize(self):
        """Wait until OneFlow's virtual machine has executed all enqueued operations."""
        flow._oneflow_internal.eager.Sync()

    def wait(self, loss):
        """Wait until a step has finished, its update included; `loss` is the pair that `train` returned for it."""
        loss[1].numpy()

    def facts(self):
        """Return a dict of facts for the record: versions, devices, threads, libraries and transport.

        The keys are `framework_version`, `devices` (a list of one name), `threads` (the number of threads; None if
        OMP_NUM_THREADS is not set) and `transport` (`nccl` or `epoll`; None without collectives); on a GPU also
        `tf32_override`, the value of NVIDIA_TF32_OVERRIDE.
        """
        report = {
            "framework_version": flow.__version__,
            "devices": [str(self.device)],
            "threads": int(os.environ.get("OMP_NUM_THREADS", "0")) or None,
            "transport": ("nccl" if self.request.device == "cuda" else "epoll")
            if self.syncs_gradients
            else None,
        }
        if self.request.device == "cuda":
            report["tf32_override"] = os.environ["NVIDIA_TF32_OVERRIDE"]
        return report

    def is_out_of_memory(self, error):
        """Return True if `error` is a MemoryError, or a RuntimeError whose message says that memory ran out."""
        if isinstance(error, MemoryError):
            return True
        return isinstance(error, RuntimeError) and any(message in str(error) for message in _OUT_OF_MEMORY)
