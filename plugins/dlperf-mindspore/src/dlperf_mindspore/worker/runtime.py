"""The runtime of MindSpore in a worker process: device, threads, seed, and the group of replicas."""

import atexit
import itertools
import os
import sys

import mindspore as ms
from mindspore import communication
from mindspore.graph.api import _pynative_executor

from dlperf_mindspore.processes import STRATEGIES
from dlperf_mindspore.worker.devices import take_device
from dlperf_sdk.worker.interface import Runtime

_OUT_OF_MEMORY = ("Allocate memory failed", "memory isn't enough", "std::bad_alloc", "Cannot allocate memory")
"""Parts of the messages of MindSpore and its libraries when memory runs out."""


class MindSporeRuntime(Runtime):
    """One process that owns one device: a CPU with the process's threads, an NPU, or the GPU in CUDA_VISIBLE_DEVICES.

    Raises:
        Unsupported: There are several replicas, and the plugin lacks the strategy.
    """

    strategies = STRATEGIES

    def __init__(self, request, cluster, process):
        super().__init__(request, cluster, process)
        self.on_cpu = request.device == "cpu"
        # MindSpore executes operations on a CPU before it returns.
        self.clock = "blocking" if self.on_cpu else "event"

    def start(self):
        """Set MindSpore's threads, mode, device and seed; join the other processes if gradients are synchronized.

        Raises:
            Unsupported: MindSpore cannot use the device.
        """
        self.threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
        ms.set_context(mode=ms.PYNATIVE_MODE)
        take_device(self.request.device, self.process.devices[0] if self.request.device == "npu" else 0)
        if self.syncs_gradients:
            communication.init()
        self.seed()

    def seed(self):
        """Seed MindSpore's generators with the request's seed plus the replica's global index.

        Returns:
            False: MindSpore's random state is not fully set, because on a CPU a new seed does not change the state of
            the operator of dropout. Other devices are not tested.
        """
        ms.set_seed(self.request.seed + self.process.replicas[0])
        return False

    def synchronize(self):
        """Wait until MindSpore has executed all enqueued operations."""
        _pynative_executor.sync()
        if not self.on_cpu:
            ms.runtime.synchronize()

    def mark(self):
        """Record an event on the device without waiting, and return it."""
        event = ms.runtime.Event(enable_timing=True)
        event.record()
        return event

    def elapsed(self, marks):
        """Return a list of the seconds between neighboring items of `marks`, events that `mark` returned."""
        return [start.elapsed_time(end) / 1000.0 for start, end in itertools.pairwise(marks)]

    def reset_peak_memory(self):
        """Set the peak that `peak_memory` returns to the memory in use now; do nothing on a CPU."""
        if not self.on_cpu:
            ms.runtime.reset_peak_memory_stats()

    def peak_memory(self):
        """Return the peak of device memory in use since `reset_peak_memory`, in bytes; None on a CPU."""
        return None if self.on_cpu else ms.runtime.max_memory_allocated()

    def facts(self):
        """Return a dict of facts about the framework and the devices, for the record.

        The keys are `framework_version`, `threads` (the number of threads), `onednn_max_cpu_isa` (the value of
        ONEDNN_MAX_CPU_ISA) and `transport` (MindSpore's name of the library of its collectives; None without
        collectives).
        """
        return {
            "framework_version": ms.__version__,
            "threads": self.threads,
            "onednn_max_cpu_isa": os.environ["ONEDNN_MAX_CPU_ISA"],
            "transport": communication.GlobalComm.BACKEND if self.syncs_gradients else None,
        }

    def is_out_of_memory(self, error):
        """Return True if `error` is a MemoryError, or a RuntimeError whose message says that memory ran out."""
        if isinstance(error, MemoryError):
            return True
        return isinstance(error, RuntimeError) and any(message in str(error) for message in _OUT_OF_MEMORY)

    def stop(self):
        """Leave the group of replicas, if gradients are synchronized; otherwise do nothing.

        After this, the process will end without MindSpore's own clean-up: MindSpore 2.10 ends its cluster a second time
        when the interpreter exits, and now and then dies of a SIGSEGV.
        """
        if self.syncs_gradients:
            communication.release()
            atexit.register(_end_at_once)


def _end_at_once():
    """End this process with exit code 0, after what is written to its standard streams."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
