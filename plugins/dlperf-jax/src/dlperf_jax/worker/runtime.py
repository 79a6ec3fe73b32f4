"""The runtime of JAX in a worker process: devices, threads, arithmetic, and the other processes."""

import gzip
import hashlib
import os
import shutil
from contextlib import contextmanager
from glob import glob
from tempfile import TemporaryDirectory

import jax
import jaxlib

from dlperf_jax.precisions import PRECISIONS
from dlperf_jax.processes import STRATEGIES
from dlperf_jax.worker import distributed
from dlperf_jax.worker.replicas import Replicas
from dlperf_sdk.worker.gpu.requirements import require_capability
from dlperf_sdk.worker.interface import Runtime
from dlperf_sdk.worker.unsupported import Unsupported, look_up


class JaxRuntime(Runtime):
    """One process that owns one device or all devices of its node: CPUs, or the GPUs in CUDA_VISIBLE_DEVICES.

    Raises:
        Unsupported: The plugin lacks the precision, or there are several replicas and it lacks the strategy.
    """

    clock, strategies = "lagged", STRATEGIES

    def __init__(self, request, cluster, process):
        super().__init__(request, cluster, process)
        self.precision = look_up("precision", request.precision, PRECISIONS)
        self.is_distributed = self.syncs_gradients and len(process.devices) < cluster.world_size
        """True if gradients are averaged with replicas of other processes."""
        self.replicas = None
        """The replicas that train together, those of other processes included; None until `start`."""
        self.newest = None
        """The trainer's state after the newest step, for which `synchronize` waits; the trainer sets it."""

    def start(self):
        """Select the devices, set threads, arithmetic and the cache of compiled programs, and join the other processes.

        On a CPU, NPROC and XLA_FLAGS are set in this process's environment. Compiled programs are cached in a folder
        below XDG_CACHE_HOME or `~/.cache`. The timeout for the other processes to join, and on CPUs that of
        collectives, is the longest of `Request.deadlines`, since some workers compile for longer than others.

        Raises:
            Unsupported: JAX cannot use devices of the kind, or finds too few; or a GPU's compute capability is below
                8.0 and the precision needs TF32 or bfloat16.
            jax.errors.JaxRuntimeError: On CPUs, another process did not join within the timeout.
        """
        count, patience = len(self.process.devices), int(max(self.request.deadlines.values()))
        jax.config.update("jax_platforms", self.request.device)
        jax.config.update("jax_compilation_cache_dir", _find_compilation_cache())
        if self.precision.products == "float32":
            # Left alone, GPUs round the operands of float32 products to TF32.
            precision = "tensorfloat32" if self.precision.tf32 else "highest"
            jax.config.update("jax_default_matmul_precision", precision)
        if self.request.device == "cpu":
            self._limit_threads(patience)
            jax.config.update("jax_num_cpu_devices", count)
        if self.is_distributed:
            host = self.cluster.nodes[self.process.node].host
            distributed.join(self.request.device, host, patience)
        self._require_devices(count)
        self.replicas = Replicas(jax.devices() if self.syncs_gradients else jax.local_devices()[:count])
        if self.is_distributed and self.request.device == "cpu":
            distributed.connect(self.replicas, patience)

    def _limit_threads(self, patience):
        """Set what XLA reads when it takes the processor: threads, and how long a replica waits for the others."""
        os.environ["NPROC"] = os.environ.get("OMP_NUM_THREADS", "1")
        names = (
            "collective_timeout",
            "collective_call_terminate_timeout",
            "collective_call_warn_stuck_timeout",
        )
        flags = ["--xla_cpu_%s_seconds=%d" % (name, patience) for name in names]
        os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *flags])

    def _require_devices(self, count):
        try:
            devices = jax.local_devices()
        except RuntimeError as error:
            raise Unsupported(
                "JAX %s cannot use %s: %s; check the driver with nvidia-smi, or run with --device cpu"
                % (jax.__version__, self.request.device, error)
            ) from None
        if len(devices) < count:
            raise Unsupported(
                "JAX %s finds %d of %d devices (CUDA_VISIBLE_DEVICES is %r); choose a smaller topology"
                % (jax.__version__, len(devices), count, os.environ.get("CUDA_VISIBLE_DEVICES"))
            )
        if self.request.device == "cuda":
            for device in devices:
                capability = tuple(map(int, device.compute_capability.split(".")))
                require_capability(device.device_kind, capability, self.precision)

    def synchronize(self):
        """Wait until the device has finished the newest step, its update included."""
        jax.block_until_ready(self.newest)

    def wait(self, loss):
        """Wait until a step has finished, its update included; `loss` is the array that `train` returned for it."""
        loss.block_until_ready()

    @contextmanager
    def trace(self, path):
        """Return a context manager in which JAX's profiler records; at its end, the trace is written to `path`.

        The file is in Chrome's trace format. It is not written if an exception leaves the context manager. The profiler
        writes its own files into a temporary folder beside `path`, which is removed.
        """
        with TemporaryDirectory(dir=os.path.dirname(path)) as folder:
            options = jax.profiler.ProfileOptions()
            options.python_tracer_level = 0  # calls of Python functions would be most of the trace
            with jax.profiler.trace(folder, profiler_options=options):
                yield
            (packed,) = glob(os.path.join(folder, "**", "*.trace.json.gz"), recursive=True)
            with gzip.open(packed) as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target)

    def facts(self):
        """Return a dict of facts about the framework and the devices, for the record.

        The keys are `framework_version`, `jaxlib_version`, `devices` (a list of names, one per replica of this
        process), `platform_version` (the version of XLA's client for the device) and `transport` (`nccl`, `gloo`,
        `memory` within one process on a CPU, or None without collectives). On a CPU there is also `threads`, the number
        of threads. On GPUs there are `compute_capability`, such as `9.0`, and `device_memory`, in bytes, both of the
        first GPU.
        """
        devices = jax.local_devices()
        report = {
            "framework_version": jax.__version__,
            "jaxlib_version": jaxlib.__version__,
            "devices": [
                "cpu" if device.platform == "cpu" else device.device_kind
                for device in self.replicas.local_devices
            ],
            "platform_version": devices[0].client.platform_version,
            "transport": self._transport(),
        }
        if self.request.device == "cpu":
            report["threads"] = int(os.environ["NPROC"])
        else:
            report.update(
                compute_capability=devices[0].compute_capability,
                device_memory=devices[0].memory_stats()["bytes_limit"],
            )
        return report

    def _transport(self):
        if not self.syncs_gradients:
            return None
        if self.request.device == "cuda":
            return "nccl"
        return "gloo" if self.is_distributed else "memory"

    def is_out_of_memory(self, error):
        """Return True if `error` is a MemoryError, or a JaxRuntimeError whose message says that memory ran out."""
        if isinstance(error, jax.errors.JaxRuntimeError):
            return "RESOURCE_EXHAUSTED" in str(error) or "Out of memory" in str(error)
        return isinstance(error, MemoryError)

    def stop(self):
        """Leave the group of processes of `jax.distributed`, if the case has several processes."""
        if self.is_distributed:
            distributed.leave()


def _find_compilation_cache():
    """Return the folder of compiled programs in the user's cache: repeats are new processes, and compile the same.

    XLA compiles for the very processor, so each kind has its own folder: a home may be shared by several.
    """
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        flags = next((line for line in file if line.startswith(("flags", "Features"))), "")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "dlperf", "jax-" + hashlib.sha256(flags.encode()).hexdigest()[:12])
