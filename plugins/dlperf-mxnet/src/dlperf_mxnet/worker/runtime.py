"""MXNet inside one worker process: its devices, its arithmetic, its way to the other replicas."""

import os

import mxnet as mx

from dlperf_sdk.worker.interface import Runtime, Unsupported

_OUT_OF_MEMORY = ("Failed to allocate CPU Memory", "cudaMalloc retry failed: out of memory", "std::bad_alloc")
"""Messages of MXNet on running out of memory; it has no exception of its own for it."""


class MXNetRuntime(Runtime):
    """One process and its devices: `cpu(0)`, `cpu(1)`, … or the GPUs that CUDA_VISIBLE_DEVICES lets it see."""

    clock = "lagged"

    def __init__(self, request, cluster, process):
        super().__init__(request, cluster, process)
        context = mx.gpu if request.device == "cuda" else mx.cpu
        self.contexts = [context(i) for i in range(len(process.devices))]
        """MXNet's devices, one per replica of this process."""
        self.kvstore = None
        """Store that synchronizes the gradients of all replicas; None where they are independent."""
        self._keys = {}
        """Parameter → its key in the kvstore."""

    def start(self):
        """Select the devices, and join the other replicas.

        Raises:
            Unsupported: a device is not available.
        """
        request = self.request
        if request.device == "cuda" and mx.context.num_gpus() < len(self.contexts):
            raise Unsupported(
                "MXNet %s finds %d usable GPUs where %d are needed (CUDA_VISIBLE_DEVICES is %r); check the driver "
                "with nvidia-smi, or run with --device cpu"
                % (
                    mx.__version__,
                    mx.context.num_gpus(),
                    len(self.contexts),
                    os.environ.get("CUDA_VISIBLE_DEVICES"),
                )
            )
        # No TF32, whatever a library's default is: cuBLAS and cuDNN read it when the first operator needs them.
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
        self.seed()
        kind = self._kvstore_kind()
        if kind is not None:
            self.kvstore = mx.kvstore.create(kind)

    def seed(self):
        """Seed each device's generators: the one of a CPU, and several of a GPU, which take turns that go on."""
        for context, replica in zip(self.contexts, self.process.replicas):
            mx.random.seed(self.request.seed + replica, ctx=context)
        return self.request.device == "cpu"

    def _kvstore_kind(self):
        """Return the name of MXNet's store for the strategy."""
        strategy = self.request.strategy
        if strategy == "independent" or self.cluster.world_size == 1:
            return None
        gpus = self.request.device == "cuda"
        if strategy == "parameter_server":
            return "dist_device_sync" if gpus else "dist_sync"
        has_nccl = self.request.framework_options["nccl"] and mx.runtime.Features().is_enabled("NCCL")
        return "nccl" if gpus and has_nccl else "device"

    def sum_gradients(self, parameters):
        """Sum the gradients of these parameters over all replicas in the kvstore, the last layers' first.

        Return the number of replicas in the sum: 1 where they do not meet.
        Each is pushed and pulled by itself. The servers only sum: the optimizer's arithmetic is the model's.
        """
        if self.kvstore is None:
            return 1
        for parameter in parameters:
            if parameter not in self._keys:
                self._keys[parameter] = len(self._keys)
                self.kvstore.init(self._keys[parameter], mx.nd.zeros(parameter.shape))
        for parameter in reversed(parameters):
            key, gradients = self._keys[parameter], parameter.list_grad()
            self.kvstore.push(key, gradients, priority=-key)
            self.kvstore.pull(key, gradients, priority=-key)
        return self.cluster.world_size

    def strategy_in_effect(self):
        """Return the name of the strategy that the kvstore implements; None if replicas do not synchronize."""
        if self.kvstore is None:
            return None
        return "parameter_server" if self.kvstore.type.startswith("dist") else "all_reduce"

    def synchronize(self):
        """Wait for everything that was handed to MXNet's engine; also raises what failed there."""
        mx.nd.waitall()

    def wait(self, loss):
        """Wait for the last update of a step; `loss` is the handle that `MXNetTrainer.step` returned."""
        _, updated = loss
        for trace in updated:
            trace.wait_to_read()

    def facts(self):
        """Return versions, devices, libraries, threads and transport."""
        report = {
            "framework_version": mx.__version__,
            "devices": [str(context) for context in self.contexts],
            "features": sorted(name for name, feature in mx.runtime.Features().items() if feature.enabled),
            "engine": os.environ.get("MXNET_ENGINE_TYPE", "ThreadedEnginePerDevice"),
            "transport": None if self.kvstore is None else "kvstore " + self.kvstore.type,
        }
        if self.request.device == "cuda":
            free_and_total = [mx.context.gpu_memory_info(context.device_id) for context in self.contexts]
            report.update(
                device_memory=free_and_total[0][1],
                tf32_override=os.environ["NVIDIA_TF32_OVERRIDE"],
            )
        return report

    def is_out_of_memory(self, error):
        """Return True for a MemoryError, and for an error whose message MXNet gives when memory runs out."""
        if isinstance(error, MemoryError):
            return True
        return isinstance(error, mx.MXNetError) and any(message in str(error) for message in _OUT_OF_MEMORY)

    def stop(self):
        """Leave the kvstore: when the last trainer has, the scheduler and the servers end by themselves."""
        mx.nd.waitall()
        self.kvstore = None
