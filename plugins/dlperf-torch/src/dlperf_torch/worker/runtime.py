"""The runtime of torch in a worker process: device, threads, arithmetic, and the process group."""

import os
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise

import torch
import torch.distributed as dist

from dlperf_sdk.worker import horovod, lifetime
from dlperf_sdk.worker.gpu.requirements import require_capability, require_gpus
from dlperf_sdk.worker.interface import Runtime
from dlperf_sdk.worker.unsupported import look_up
from dlperf_torch.precisions import PRECISIONS
from dlperf_torch.processes import STRATEGIES
from dlperf_torch.worker.exchange import AllReduce, Alone

# What torch and the libraries below it say when memory runs out and they have no exception of its own for it.
_OUT_OF_MEMORY = (
    "DefaultCPUAllocator: can't allocate memory",
    "CUDA error: out of memory",
    "CUDA driver error: out of memory",
    "CUDA out of memory",  # torch's own exception, inside one of inductor's
    "Triton Error [CUDA]: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "ALLOCATION_FAILED",  # cuDNN 9: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, …_HOST_…
    "Cuda failure 2 'out of memory'",  # NCCL
    "Cuda failure 'out of memory'",
    "std::bad_alloc",
)
# cuDNN tries one algorithm after another, and torch passes over those whose workspace finds no memory. When none is
# left this is all that is said; that memory was the reason, only the allocator's count of its failures tells.
_NO_ENGINE = "unable to find an engine to execute this computation"
# All that oneDNN says when there is no memory for the code it generates (seen under an
# address space limit). For a layer that it does not know it says more:
# "could not create a primitive descriptor for …".
_NO_MEMORY_FOR_CODE = "could not create a primitive"


class TorchRuntime(Runtime):
    """One process that owns one device: `cpu`, or the GPU in CUDA_VISIBLE_DEVICES.

    Raises:
        Unsupported: The plugin lacks the precision, or there are several replicas and it lacks the strategy.
    """

    strategies = STRATEGIES

    def __init__(self, request, cluster, process):
        super().__init__(request, cluster, process)
        self.clock = "event" if request.device == "cuda" else "blocking"
        self.device = torch.device(request.device, 0) if request.device == "cuda" else torch.device("cpu")
        self.replica = process.replicas[0]
        self.precision = look_up("precision", request.precision, PRECISIONS)
        self.hvd = None
        """Horovod's module; None with other strategies, and until `start`."""

    def start(self):
        """Select the device, set seeds, threads and TF32, and join the other processes.

        The number of threads is OMP_NUM_THREADS, if that is set. Collectives time out after the longest of the phases'
        deadlines, since some workers compile for longer than others.

        Raises:
            Unsupported: No usable GPU is found, or the GPU's compute capability is below 8.0 and the precision needs
                TF32 or bfloat16.
            OSError: Horovod's rendezvous server did not accept a connection in time.
            RuntimeError: Torch could not form the process group.
        """
        request = self.request
        self.seed()
        if "OMP_NUM_THREADS" in os.environ:
            torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        if request.device == "cuda":
            self._take_gpu()
        torch.backends.cuda.matmul.allow_tf32 = self.precision.tf32
        torch.backends.cudnn.allow_tf32 = self.precision.tf32
        # Workers may compile for different lengths of time, so no collective ends before the longest
        # phase may; the agents hold the tighter deadlines.
        timeout = max(request.deadlines.values())
        if self.syncs_gradients and request.strategy == "horovod":
            self.hvd = horovod.join("horovod.torch", timeout)
        elif self.syncs_gradients:
            backend = "nccl" if request.device == "cuda" and request.framework_options["nccl"] else "gloo"
            dist.init_process_group(
                backend,
                timeout=timedelta(seconds=timeout),
                device_id=self.device if backend == "nccl" else None,
            )

    def exchange(self, network, request):
        """Return the object that synchronizes the gradients of `network`, an `nn.Module` on the device.

        It is a `Horovod` with the strategy `horovod`, an `AllReduce` if DistributedDataParallel averages the gradients,
        and an `Alone` if the replicas do not synchronize. Its attribute `replicated` is the network that a step calls.
        `request` gives the options.
        """
        if self.hvd:
            from dlperf_torch.worker.horovod import Horovod

            return Horovod(network, request)
        return (AllReduce if self.syncs_gradients else Alone)(network, request)

    def seed(self):
        """Seed torch's generators on all devices with the request's seed plus the replica's global index.

        Returns:
            True: torch can set its random state.
        """
        torch.manual_seed(self.request.seed + self.replica)
        return True

    def _take_gpu(self):
        framework = "torch %s (built for CUDA %s)" % (torch.__version__, torch.version.cuda)
        require_gpus(framework, int(torch.cuda.is_available()))
        torch.cuda.set_device(self.device)
        capability = torch.cuda.get_device_capability(self.device)
        require_capability(torch.cuda.get_device_name(self.device), capability, self.precision)
        torch.backends.cudnn.benchmark = self.request.framework_options["cudnn_benchmark"]
        torch.backends.cudnn.benchmark_limit = self.request.framework_options["cudnn_benchmark_limit"]

    def synchronize(self):
        """Wait until the GPU has finished all work; on a CPU, return at once.

        On a CPU each call of torch has finished when it returns, collectives included.
        """
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def mark(self):
        """Record a CUDA event on the current stream without waiting, and return the event; not called on a CPU."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def elapsed(self, marks):
        """Return a list of the seconds between neighboring items of `marks`, events that `mark` returned."""
        return [earlier.elapsed_time(later) / 1e3 for earlier, later in pairwise(marks)]

    def reset_peak_memory(self):
        """Reset the peak that `peak_memory` returns to the memory in use now; do nothing on a CPU."""
        if self.device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self.device)

    def peak_memory(self):
        """Return the peak bytes of tensors on the GPU since `reset_peak_memory`; None on a CPU.

        Memory that the allocator holds in reserve is not included.
        """
        return torch.cuda.max_memory_allocated(self.device) if self.device.type == "cuda" else None

    @contextmanager
    def trace(self, path):
        """Return a context manager in which torch.profiler records; at its end, the trace is written to `path`.

        It records the CPU, and the GPU if the case uses one. The file is in Chrome's trace format. It is not written if
        an exception leaves the context manager.
        """
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self.device.type == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        with torch.profiler.profile(activities=activities) as profiler:
            yield
        profiler.export_chrome_trace(path)

    def facts(self):
        """Return a dict of facts for the record: versions, devices, threads, libraries and transport.

        The keys are `framework_version`, `devices` (a list of one name), `threads`, `interop_threads` (numbers),
        `cpu_capability`, `mkl`, `onednn`, `deterministic_algorithms` and `transport` (`nccl` or `gloo`; None without
        torch's collectives); with Horovod also those of `horovod.facts`, such as `horovod_version`. On a GPU there are
        also `compute_capability`, `device_memory` in bytes, `cuda_version`, `cudnn_version`, `nccl_version`,
        `cudnn_benchmark`, `cudnn_benchmark_limit`, `cudnn_deterministic`, `matmul_allow_tf32` and `cudnn_allow_tf32`.
        """
        report = {
            "framework_version": torch.__version__,
            "devices": ["cpu"],
            "threads": torch.get_num_threads(),
            "interop_threads": torch.get_num_interop_threads(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "mkl": torch.backends.mkl.is_available(),
            "onednn": torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled,
            "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
            "transport": dist.get_backend() if dist.is_initialized() else None,
            **(horovod.facts(self.hvd, self.request.device) if self.hvd else {}),
        }
        if self.device.type == "cuda":
            properties = torch.cuda.get_device_properties(self.device)
            report.update(
                devices=[properties.name],
                compute_capability="%d.%d" % (properties.major, properties.minor),
                device_memory=properties.total_memory,
                cuda_version=torch.version.cuda,
                cudnn_version=torch.backends.cudnn.version(),
                nccl_version=".".join(map(str, torch.cuda.nccl.version())),
                cudnn_benchmark=torch.backends.cudnn.benchmark,
                cudnn_benchmark_limit=torch.backends.cudnn.benchmark_limit,
                cudnn_deterministic=torch.backends.cudnn.deterministic,
                matmul_allow_tf32=torch.backends.cuda.matmul.allow_tf32,
                cudnn_allow_tf32=torch.backends.cudnn.allow_tf32,
            )
        return report

    def is_out_of_memory(self, error):
        """Return True if the exception `error` says that memory ran out.

        This is a MemoryError, torch's OutOfMemoryError, or a RuntimeError with a known message of torch or its
        libraries. If the message says that cuDNN found no engine, return True if an allocation on the GPU has failed
        before.
        """
        if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
            return True
        if not isinstance(error, RuntimeError):
            return False
        description = str(error)
        if _NO_ENGINE in description and self.device.type == "cuda":
            return torch.cuda.memory_stats(self.device).get("num_ooms", 0) > 0
        return description == _NO_MEMORY_FOR_CODE or any(message in description for message in _OUT_OF_MEMORY)

    def stop(self):
        """Leave the process group, or Horovod; do nothing if the replicas do not synchronize.

        After a process group, the process will end without finalizing the interpreter (`lifetime.skip_finalization`),
        because the group's threads may still hold Python objects.
        """
        if self.hvd:
            self.hvd.shutdown()
        elif self.syncs_gradients:
            dist.destroy_process_group()
            lifetime.skip_finalization()  # gloo: a SIGABRT was seen there
