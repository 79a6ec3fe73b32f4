"""The runtime of TensorFlow in a worker process: devices, threads, arithmetic, and the distribution strategy."""

import os
from contextlib import contextmanager

import tensorflow as tf

from dlperf_sdk.worker.gpu.requirements import require_capability, require_gpus
from dlperf_sdk.worker.interface import Runtime
from dlperf_sdk.worker.unsupported import Unsupported, look_up
from dlperf_tensorflow.precisions import PRECISIONS
from dlperf_tensorflow.processes import STRATEGIES
from dlperf_tensorflow.worker import asynchronous, profile


class TensorFlowRuntime(Runtime):
    """One process that owns one device or all devices of its node: CPUs, or the GPUs in CUDA_VISIBLE_DEVICES.

    With `parameter_server_async` and several replicas the process owns no device: servers compute the functions that it
    schedules.

    Raises:
        Unsupported: The plugin lacks the precision, or there are several replicas and it lacks the strategy.
    """

    strategies = STRATEGIES

    def __init__(self, request, cluster, process):
        super().__init__(request, cluster, process)
        self.served = self.syncs_gradients and request.strategy == "parameter_server_async"
        """True if servers compute the functions that this process schedules."""
        self.clock = "lagged" if request.device == "cuda" or self.served else "blocking"
        self.replica = process.replicas[0]
        self.precision = look_up("precision", request.precision, PRECISIONS)
        self.averages_gradients = self.syncs_gradients and not self.served
        """True if collectives average gradients over several replicas."""
        self.has_nccl = request.device == "cuda" and request.framework_options["nccl"]
        """True if NCCL averages gradients."""
        self.strategy = None
        """The `tf.distribute.Strategy` whose scope holds the replicas of this process; None until `start`."""
        self.coordinator = None
        """TensorFlow's `ClusterCoordinator` if servers compute, else None."""

    def start(self):
        """Select the devices, set threads, arithmetic and the seed, and join the other processes.

        The seed is the request's plus the global index of the first replica. If the layout is not `auto`, the graph
        optimizer's own choice of layouts is turned off.

        Raises:
            Unsupported: There are too few GPUs; a GPU's compute capability is below 8.0 and the precision needs TF32 or
                bfloat16; or TensorFlow truncates products to bfloat16 on this CPU.
        """
        request, count = self.request, max(1, len(self.process.devices))
        threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        # At least two: replicas of one process run side by side, and one that waits must not stop the other.
        tf.config.threading.set_inter_op_parallelism_threads(max(2, count))
        devices = self._take_gpus(count) if request.device == "cuda" else _take_cpus(count)
        tf.config.experimental.enable_tensor_float_32_execution(self.precision.tf32)
        if request.layout != "auto":
            # Left alone, the graph optimizer chooses a layout of its own for GPUs.
            tf.config.optimizer.set_experimental_options({"layout_optimizer": False})
        # Before anything is computed: the workers' server must be there when the context is initialized.
        if self.served:
            self.strategy, self.coordinator = asynchronous.join()
        else:
            self.strategy = self._strategy(devices)
        if request.device == "cpu" and self.precision.products == "bfloat16" and request.compiler != "xla":
            _must_round()
        tf.random.set_seed(request.seed + self.replica)

    def _strategy(self, devices):
        if not self.averages_gradients:
            return tf.distribute.get_strategy()
        if len(devices) == self.cluster.world_size:
            if self.has_nccl:
                return tf.distribute.MirroredStrategy(devices)
            return tf.distribute.MirroredStrategy(devices, tf.distribute.ReductionToOneDevice())
        return tf.distribute.MultiWorkerMirroredStrategy(communication_options=self.communication())

    def communication(self):
        """Return TensorFlow's `CommunicationOptions` for collectives: implementation, bytes per pack, and time-out.

        The implementation is NCCL on GPUs if the option `nccl` is on, else gRPC rings. The time-out is the longest of
        the phases' deadlines in seconds, since some workers compile for longer than others; the agents enforce each
        deadline.
        """
        implementations = tf.distribute.experimental.CommunicationImplementation
        return tf.distribute.experimental.CommunicationOptions(
            bytes_per_pack=self.request.framework_options["pack_mb"] * 2**20,
            timeout_seconds=max(self.request.deadlines.values()),
            implementation=implementations.NCCL if self.has_nccl else implementations.RING,
        )

    def _take_gpus(self, count):
        gpus = tf.config.list_physical_devices("GPU")
        framework = "TensorFlow %s (built for CUDA: %s)" % (tf.__version__, tf.test.is_built_with_cuda())
        require_gpus(framework, len(gpus), count)
        for device in gpus[:count]:
            details = tf.config.experimental.get_device_details(device)
            capability = details.get("compute_capability", (0, 0))
            require_capability(details.get("device_name"), capability, self.precision)
        return ["GPU:%d" % i for i in range(count)]

    def synchronize(self):
        """Wait until all steps have finished.

        With parameter servers, wait for the scheduled functions, which include the updates; otherwise wait for this
        process's GPUs. On CPUs of this process, return at once: each call has finished when it returns, collectives
        included.
        """
        if self.served:
            self.coordinator.join()
        elif self.request.device == "cuda":
            tf.test.experimental.sync_devices()

    def read_losses(self, handle):
        """Return the losses of this process's replicas, a sequence of scalar tensors in order.

        `handle` is what the trainer's `train` returned. With parameter servers, wait until the computing servers have
        returned the losses; an error of a function on a server is raised here.
        """
        if self.served:
            return [value.get() for value in handle]
        return self.strategy.experimental_local_results(handle)

    def wait(self, loss):
        """Wait until the losses of a step are computed; `loss` is what the trainer's `train` returned.

        With parameter servers, a computing server returns a loss after the update of the step.
        """
        for value in self.read_losses(loss):
            value.numpy()

    def _gpus(self):
        return (
            ["GPU:%d" % i for i in range(len(self.process.devices))] if self.request.device == "cuda" else []
        )

    def reset_peak_memory(self):
        """Reset the peak that `peak_memory` returns to the memory in use now; do nothing on a CPU."""
        for device in self._gpus():
            tf.config.experimental.reset_memory_stats(device)

    def peak_memory(self):
        """Return the peak bytes of tensors since `reset_peak_memory`, summed over this process's GPUs; None on a CPU.

        Memory that the allocator holds in reserve is not included.
        """
        gpus = self._gpus()
        return sum(tf.config.experimental.get_memory_info(gpu)["peak"] for gpu in gpus) if gpus else None

    def peak_host_memory(self):
        """Return the peak bytes of this process's host memory; with parameter servers, the largest of all processes."""
        return asynchronous.read_max_status("VmHWM") if self.served else super().peak_host_memory()

    @contextmanager
    def trace(self, path):
        """Return a context manager in which TensorFlow's profiler records; at its end, the trace is written to `path`.

        The file is in Chrome's trace format. It is not written if an exception leaves the context manager.
        """
        with profile.record(os.path.dirname(path)) as planes:
            yield
        profile.write_chrome_trace(planes, path)

    def facts(self):
        """Return a dict of facts for the record: versions, devices, threads, libraries and transport.

        The keys are `framework_version`, `devices` (a list of names, one per replica), `threads` and `interop_threads`
        (numbers), `distribution` (the name of the strategy's class) and `transport` (`nccl`, `grpc`, `memory` within a
        process, or None without collectives). On GPUs there are also `compute_capability` (of the first GPU),
        `cuda_version`, `cudnn_version` and `tensor_float_32`. With parameter servers, the keys are only
        `framework_version`, `devices`, `parameter_servers` (a list of names), `distribution` and `transport`; and
        `allocated_memory`, in bytes, if the request limits memory.
        """
        if self.served:
            limited = self.request.memory_limit is not None
            return {
                "framework_version": tf.__version__,
                "devices": asynchronous.servers("worker"),
                "parameter_servers": asynchronous.servers("ps"),
                "distribution": type(self.strategy).__name__,
                "transport": "grpc",
                **({"allocated_memory": asynchronous.read_max_status("VmData")} if limited else {}),
            }
        report = {
            "framework_version": tf.__version__,
            "devices": ["cpu"] * len(self.process.devices),
            "threads": tf.config.threading.get_intra_op_parallelism_threads(),
            "interop_threads": tf.config.threading.get_inter_op_parallelism_threads(),
            "distribution": type(self.strategy).__name__,
            "transport": self._transport(),
        }
        if self.request.device == "cuda":
            details = [
                tf.config.experimental.get_device_details(device)
                for device in tf.config.list_physical_devices("GPU")[: len(self.process.devices)]
            ]
            report.update(
                devices=[detail.get("device_name", "GPU") for detail in details],
                compute_capability="%d.%d" % details[0].get("compute_capability", (0, 0)),
                cuda_version=tf.sysconfig.get_build_info().get("cuda_version"),
                cudnn_version=tf.sysconfig.get_build_info().get("cudnn_version"),
                tensor_float_32=tf.config.experimental.tensor_float_32_execution_enabled(),
            )
        return report

    def _transport(self):
        if not self.averages_gradients:
            return None
        if self.has_nccl:
            return "nccl"
        return "memory" if isinstance(self.strategy, tf.distribute.MirroredStrategy) else "grpc"

    def is_out_of_memory(self, error):
        """Return True if `error` is a MemoryError or TensorFlow's ResourceExhaustedError."""
        return isinstance(error, (tf.errors.ResourceExhaustedError, MemoryError))


def _must_round():
    """See that a product in bfloat16 is rounded: 1 + 0.75 · 2⁻⁷ to 1 + 2⁻⁷, its neighbor below being 1.

    TensorFlow 2.21 was seen to cut it to 1 on an AMD EPYC with AVX2 (not its convolutions, nor XLA), where BERT's
    losses came out 6e-3 off.
    """
    left = tf.ones((64, 64), tf.bfloat16)
    right = tf.concat([tf.ones((1, 64)), tf.fill((1, 64), 0.75 * 2**-7), tf.zeros((62, 64))], axis=0)
    if float(tf.matmul(left, tf.cast(right, tf.bfloat16))[0, 0]) != 1 + 2**-7:
        raise Unsupported(
            "TensorFlow %s cuts matrix products to bfloat16 on this processor instead of rounding them; choose fp32, "
            "or the compiler xla" % tf.__version__
        )


def _take_cpus(count):
    """Create logical devices of the one CPU, which share its threads."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    return ["CPU:%d" % i for i in range(count)]
