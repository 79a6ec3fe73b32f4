"""The runtime of Paddle in a worker process: device, arithmetic, and the process group."""

import os
from contextlib import contextmanager
from itertools import pairwise

import paddle
import paddle.distributed as dist
from paddle import profiler

from dlperf_paddle.precisions import PRECISIONS
from dlperf_paddle.processes import STRATEGIES
from dlperf_sdk.worker.gpu.requirements import require_capability, require_gpus
from dlperf_sdk.worker.interface import Runtime
from dlperf_sdk.worker.unsupported import Unsupported, look_up


class PaddleRuntime(Runtime):
    """One process that owns one device: `cpu`, or the GPU in CUDA_VISIBLE_DEVICES.

    Raises:
        Unsupported: The plugin lacks the precision, or there are several replicas and it lacks the strategy.
    """

    strategies = STRATEGIES

    def __init__(self, request, cluster, process):
        super().__init__(request, cluster, process)
        self.clock = "event" if request.device == "cuda" else "blocking"
        self.replica = process.replicas[0]
        self.precision = look_up("precision", request.precision, PRECISIONS)

    def start(self):
        """Select the device, set seeds and TF32, and join the other processes.

        Raises:
            Unsupported: No usable GPU is found; the GPU's compute capability is below 8.0 and the precision needs TF32
                or bfloat16; or the compiler is cinn, which this build of Paddle lacks.
        """
        request = self.request
        if request.device == "cuda":
            self._take_gpu()
        else:
            paddle.device.set_device("cpu")
        if request.compiler == "cinn" and not paddle.is_compiled_with_cinn():
            raise Unsupported(
                "this build of Paddle, %s, comes without CINN; choose the compiler graph" % paddle.__version__
            )
        if self.syncs_gradients:
            dist.init_parallel_env()
        self.seed()

    def seed(self):
        """Seed Paddle's generators on all devices with the request's seed plus the replica's global index.

        Returns:
            True: Paddle can set its random state.
        """
        paddle.seed(self.request.seed + self.replica)
        return True

    def _take_gpu(self):
        has_cuda = paddle.device.is_compiled_with_cuda()
        require_gpus(
            "Paddle %s (built for CUDA: %s)" % (paddle.__version__, has_cuda),
            paddle.device.cuda.device_count() if has_cuda else 0,
        )
        paddle.device.set_device("gpu:0")
        capability = paddle.device.cuda.get_device_capability()
        require_capability(paddle.device.cuda.get_device_name(), capability, self.precision)
        set_tf32(self.precision.tf32)

    def synchronize(self):
        """Wait until the GPU has finished all work; on a CPU, return at once.

        On a CPU each call of Paddle has finished when it returns, collectives included.
        """
        if self.request.device == "cuda":
            paddle.device.synchronize()

    def mark(self):
        """Record an event on the GPU's current stream without waiting, and return it; not called on a CPU."""
        event = paddle.device.Event(enable_timing=True)
        event.record()
        return event

    def elapsed(self, marks):
        """Return a list of the seconds between neighboring items of `marks`, events that `mark` returned."""
        return [earlier.elapsed_time(later) / 1e3 for earlier, later in pairwise(marks)]

    def reset_peak_memory(self):
        """Reset the peak that `peak_memory` returns to the memory in use now; do nothing on a CPU."""
        if self.request.device == "cuda":
            paddle.device.cuda.reset_max_memory_allocated()

    def peak_memory(self):
        """Return the peak bytes of tensors on the GPU since `reset_peak_memory`; None on a CPU.

        Memory that the allocator holds in reserve is not included.
        """
        return paddle.device.cuda.max_memory_allocated() if self.request.device == "cuda" else None

    @contextmanager
    def trace(self, path):
        """Return a context manager in which paddle.profiler records; at its end, the trace is written to `path`.

        It records the CPU, and the GPU if the case uses one. The file is in Chrome's trace format. It is not written if
        an exception leaves the context manager.
        """
        targets = [profiler.ProfilerTarget.CPU]
        if self.request.device == "cuda":
            targets.append(profiler.ProfilerTarget.GPU)
        # Without a handler of its own, the profiler would write a second file.
        record = profiler.Profiler(targets=targets, on_trace_ready=lambda _: None)
        record.start()
        yield
        record.stop()
        record.export(path, format="json")

    def facts(self):
        """Return a dict of facts for the record: versions, devices, threads, libraries and transport.

        The keys are `framework_version`, `devices` (a list of one name), `threads` (the number of threads; None if
        OMP_NUM_THREADS is not set), `commit` (of Paddle's source), `cinn` (True if the build has CINN) and `transport`
        (`nccl` or `gloo`; None without collectives). On a GPU there are also `compute_capability`, `cuda_version`,
        `cudnn_version`, `nccl_version` (texts) and `matmul_allow_tf32`.
        """
        report = {
            "framework_version": paddle.__version__,
            "devices": ["cpu"],
            "threads": int(os.environ.get("OMP_NUM_THREADS", "0")) or None,
            "commit": paddle.version.commit,
            "cinn": paddle.is_compiled_with_cinn(),
            "transport": dist.get_backend().lower() if self.syncs_gradients else None,
        }
        if self.request.device == "cuda":
            report.update(
                devices=[paddle.device.cuda.get_device_name()],
                compute_capability="%d.%d" % paddle.device.cuda.get_device_capability(),
                cuda_version=paddle.version.cuda(),
                cudnn_version=paddle.version.cudnn(),
                nccl_version=str(paddle.version.nccl()),
                matmul_allow_tf32=tf32_is_on(),
            )
        return report

    def is_out_of_memory(self, error):
        """Return True if `error` is a MemoryError, or an error whose message names Paddle's ResourceExhaustedError.

        Paddle raises the latter as a RuntimeError or a SystemError.
        """
        return isinstance(error, MemoryError) or (
            isinstance(error, (RuntimeError, SystemError)) and "ResourceExhaustedError" in str(error)
        )

    def stop(self):
        """Leave the process group, if gradients are synchronized; otherwise do nothing."""
        if self.syncs_gradients:
            dist.destroy_process_group()


def set_tf32(enabled):
    """Allow cuBLAS and cuDNN to round the operands of float32 products to TF32 if `enabled` is True; else forbid it."""
    paddle.base.core.set_cublas_switch(enabled)
    paddle.base.core.set_cudnn_switch(enabled)


def tf32_is_on():
    """Return True if both cuBLAS and cuDNN may round the operands of float32 products to TF32."""
    return bool(paddle.base.core.get_cublas_switch() and paddle.base.core.get_cudnn_switch())
