"""The runtime of MegEngine in a worker process: device, threads, seed, and the exchange with the other processes."""

import glob
import os
from contextlib import contextmanager
from tempfile import TemporaryDirectory

import megengine as mge

from dlperf_megengine.processes import STRATEGIES
from dlperf_megengine.worker.exchange import EXCHANGES
from dlperf_sdk.worker.gpu.requirements import require_gpus
from dlperf_sdk.worker.interface import Runtime

_OUT_OF_MEMORY = (
    "out of memory",
    "OutOfMemory",
    "std::bad_alloc",
    "Cannot allocate memory",
    "bad allocation",
    "failed to malloc",
)
"""Parts of the messages of MegEngine and its libraries when memory runs out."""


class MegEngineRuntime(Runtime):
    """One process that owns one device: a CPU with the process's threads, or the GPU in CUDA_VISIBLE_DEVICES.

    Raises:
        Unsupported: There are several replicas, and the plugin lacks the strategy.
    """

    strategies = STRATEGIES

    def __init__(self, request, cluster, process):
        super().__init__(request, cluster, process)
        self.replica, self.replicas = process.replicas[0], cluster.world_size
        # On a CPU the exchange waits for the gradients.
        self.clock = "blocking" if request.device == "cpu" and self.syncs_gradients else "lagged"
        self.threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
        self.device = "gpu0"
        if request.device == "cpu":
            self.device = "cpu0" if self.threads == 1 else "multithread%d:0" % self.threads
        self.exchange = None
        """The exchange of gradients with the other replicas; None if gradients are not synchronized."""

    def start(self):
        """Select the device, join the other processes, switch TF32 off, and set the seed.

        NVIDIA_TF32_OVERRIDE is set to 0 in this process's environment.

        Raises:
            Unsupported: No usable GPU is found.
            TimeoutError: On CPUs, a neighbor in the ring did not connect within the deadline of the phase `start`.
            OSError: On CPUs, the address in RING_ADDRESS cannot be listened at.
        """
        request = self.request
        if request.device == "cuda":
            require_gpus("MegEngine %s" % mge.__version__, int(mge.is_cuda_available()))
        # No TF32, whatever a library's default is: cuBLAS and cuDNN read it when the first operator needs them.
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
        mge.set_default_device(self.device)
        if self.syncs_gradients:
            self.exchange = EXCHANGES[request.device](request, self.replica, self.replicas)
        self.seed()

    def seed(self):
        """Seed MegEngine's generators with the request's seed plus the replica's global index.

        Returns:
            True: MegEngine can set its random state.
        """
        mge.random.seed(self.request.seed + self.replica)
        return True

    def synchronize(self):
        """Wait until MegEngine's interpreter has executed all enqueued operations."""
        mge._full_sync()

    def wait(self, loss):
        """Wait until a step has finished, its update included; `loss` is the pair that `train` returned for it."""
        loss[1].numpy()

    @contextmanager
    def trace(self, path):
        """Return a context manager in which MegEngine's profiler records; at its end, the trace is written to `path`.

        The file is in Chrome's trace format. It is not written if an exception leaves the context manager. The profiler
        writes its own file into a temporary folder beside `path`, which is removed.
        """
        from megengine.utils.profiler import (
            Profiler,
        )  # late: it adds itself to the functions that run at exit

        with TemporaryDirectory(dir=os.path.dirname(path)) as folder:
            with Profiler(folder, format="chrome_timeline.json"):
                yield
                mge._full_sync()
            (written,) = glob.glob(os.path.join(folder, "*.chrome_timeline.json"))
            os.replace(written, path)

    def facts(self):
        """Return a dict of facts about the framework and the devices, for the record.

        The keys are `framework_version`, `devices` (a list with one item, MegEngine's name of the device, such as
        `multithread8:0`), `threads` (the number of threads) and `transport` (`ring` or `nccl`; None without
        collectives). On a GPU there is also `tf32_override`, the value of NVIDIA_TF32_OVERRIDE.
        """
        report = {
            "framework_version": mge.__version__,
            "devices": [self.device],
            "threads": self.threads,
            "transport": None if self.exchange is None else self.exchange.transport,
        }
        if self.request.device == "cuda":
            report["tf32_override"] = os.environ["NVIDIA_TF32_OVERRIDE"]
        return report

    def is_out_of_memory(self, error):
        """Return True if `error` is a MemoryError, or a RuntimeError whose message says that memory ran out.

        MegEngine raises the error of an asynchronous operation later, as the cause of another RuntimeError, so
        the causes of `error` are checked, too.
        """
        if isinstance(error, MemoryError):
            return True
        if not isinstance(error, RuntimeError):
            return False
        if any(message in str(error) for message in _OUT_OF_MEMORY):
            return True
        return error.__cause__ is not None and self.is_out_of_memory(error.__cause__)

    def stop(self):
        """Leave the group of replicas, if gradients are synchronized; otherwise do nothing."""
        if self.exchange is not None:
            self.exchange.close()
