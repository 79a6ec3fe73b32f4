"""Paddle inside one worker process: its device, its threads, its arithmetic, its way to the others."""

import os
from itertools import pairwise

import paddle
import paddle.distributed as dist

from dlperf_paddle.worker.precisions import PRECISIONS
from dlperf_sdk.worker.interface import Runtime, Unsupported
from dlperf_sdk.worker.precision import precision_named


class PaddleRuntime(Runtime):
    """One process, one device: `cpu`, or the one GPU that CUDA_VISIBLE_DEVICES lets this process see."""

    def __init__(self, request, cluster, process):
        super().__init__(request, cluster, process)
        self.clock = "event" if request.device == "cuda" else "blocking"
        self.replica = process.replicas[0]
        self.precision = precision_named(request.precision, PRECISIONS)
        self.syncs_gradients = request.strategy == "all_reduce" and cluster.world_size > 1
        """True if gradients are averaged with other processes'."""

    def start(self):
        """Select the device, set the arithmetic, and join the other processes.

        Raises:
            Unsupported: the device is not available, or cannot do what was requested.
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
        """Seed the generators of all devices."""
        paddle.seed(self.request.seed + self.replica)
        return True

    def _take_gpu(self):
        if not paddle.device.is_compiled_with_cuda() or paddle.device.cuda.device_count() < 1:
            raise Unsupported(
                "Paddle %s finds no usable GPU (built for CUDA: %s, CUDA_VISIBLE_DEVICES is %r); check the "
                "driver with nvidia-smi, or run with --device cpu"
                % (
                    paddle.__version__,
                    paddle.device.is_compiled_with_cuda(),
                    os.environ.get("CUDA_VISIBLE_DEVICES"),
                )
            )
        paddle.device.set_device("gpu:0")
        capability = paddle.device.cuda.get_device_capability()
        if capability < (8, 0) and (self.precision.tf32 or self.precision.products == "bfloat16"):
            raise Unsupported(
                "%s has compute capability %d.%d; %s needs 8.0 (Ampere) or later"
                % (paddle.device.cuda.get_device_name(), *capability, self.request.precision)
            )
        set_tf32(self.precision.tf32)

    def synchronize(self):
        """Wait for the device. On a CPU every call has finished when it returns, collectives included."""
        if self.request.device == "cuda":
            paddle.device.synchronize()

    def mark(self):
        """Record an event on the current stream, and return it."""
        event = paddle.device.Event(enable_timing=True)
        event.record()
        return event

    def elapsed(self, marks):
        """Return the seconds between neighboring events of `marks`, one fewer than there are events."""
        return [earlier.elapsed_time(later) / 1e3 for earlier, later in pairwise(marks)]

    def reset_peak_memory(self):
        """Reset the peak that `peak_memory` returns to the memory in use now."""
        if self.request.device == "cuda":
            paddle.device.cuda.reset_max_memory_allocated()

    def peak_memory(self):
        """Return the peak bytes of tensors, without the allocator's reserve."""
        return paddle.device.cuda.max_memory_allocated() if self.request.device == "cuda" else None

    def facts(self):
        """Return versions, devices, threads and transport."""
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
        """Return True for a MemoryError, and for an error whose message names Paddle's ResourceExhausted."""
        return isinstance(error, MemoryError) or (
            isinstance(error, (RuntimeError, SystemError)) and "ResourceExhaustedError" in str(error)
        )

    def stop(self):
        """Leave the process group."""
        if self.syncs_gradients:
            dist.destroy_process_group()


def set_tf32(enabled):
    """Let cuBLAS and cuDNN round the operands of float32 products to TF32, or not."""
    paddle.base.core.set_cublas_switch(enabled)
    paddle.base.core.set_cudnn_switch(enabled)


def tf32_is_on():
    """Return True if both cuBLAS and cuDNN may round the operands of float32 products to TF32."""
    return bool(paddle.base.core.get_cublas_switch() and paddle.base.core.get_cudnn_switch())
