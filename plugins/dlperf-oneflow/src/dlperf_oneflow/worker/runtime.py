"""OneFlow inside one worker process: its device, its threads, its way to the others."""

import os

import oneflow as flow

from dlperf_oneflow.worker.precisions import PRECISIONS
from dlperf_sdk.worker.interface import Runtime, Unsupported
from dlperf_sdk.worker.precision import precision_named

_OUT_OF_MEMORY = ("out of memory", "OutOfMemory", "std::bad_alloc", "Cannot allocate memory")
"""Messages of OneFlow and the libraries below it on running out of memory."""


class OneFlowRuntime(Runtime):
    """One process, one device: `cpu`, or the GPU of this process's LOCAL_RANK."""

    clock = "lagged"

    def __init__(self, request, cluster, process):
        super().__init__(request, cluster, process)
        self.replica, self.replicas = process.replicas[0], cluster.world_size
        self.syncs_gradients = request.strategy == "all_reduce" and cluster.world_size > 1
        """True if gradients are averaged with other processes'."""
        # Collectives insist on it, on a CPU as well.
        self.device = flow.device("%s:%s" % (request.device, os.environ.get("LOCAL_RANK", "0")))

    def start(self):
        """Select the device and set the arithmetic; importing OneFlow has joined the other processes.

        Raises:
            Unsupported: the device is not available, or another process did not join.
        """
        request = self.request
        precision = precision_named(request.precision, PRECISIONS)
        if request.device == "cuda" and not flow.cuda.is_available():
            raise Unsupported(
                "OneFlow %s finds no usable GPU (CUDA_VISIBLE_DEVICES is %r); check the driver with nvidia-smi, or "
                "run with --device cpu" % (flow.__version__, os.environ.get("CUDA_VISIBLE_DEVICES"))
            )
        if self.syncs_gradients and flow.env.get_world_size() != self.cluster.world_size:
            raise Unsupported(
                "OneFlow sees %d processes where %d should meet; it reads WORLD_SIZE and the like when it is imported"
                % (flow.env.get_world_size(), self.cluster.world_size)
            )
        # TF32 is decided where cuBLAS and cuDNN are first used.
        os.environ["NVIDIA_TF32_OVERRIDE"] = "1" if precision.tf32 else "0"
        flow.manual_seed(request.seed + self.replica)

    def synchronize(self):
        """Wait for everything that was handed to OneFlow's virtual machine."""
        flow._oneflow_internal.eager.Sync()

    def wait(self, loss):
        """Wait for the last update of a step; `loss` is the handle that `OneFlowTrainer.step` returned."""
        loss[1].numpy()

    def facts(self):
        """Return versions, devices, libraries, threads and transport."""
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
        """Return True for a MemoryError, and for an error whose message OneFlow gives when memory runs out."""
        if isinstance(error, MemoryError):
            return True
        return isinstance(error, RuntimeError) and any(message in str(error) for message in _OUT_OF_MEMORY)
