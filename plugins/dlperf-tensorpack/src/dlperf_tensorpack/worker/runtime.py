"""The runtime of tensorpack in a worker process: the graph, the options of its session, and the devices of its towers.

tensorpack itself creates the session, after the graph has been built.
"""

import tensorflow.compat.v1 as tf
import tensorpack
from dlperf_tensorflow1.worker.runtime import TensorFlow1Runtime

from dlperf_sdk.worker.gpu.requirements import require_gpus
from dlperf_tensorpack.processes import STRATEGIES


def _place_on_cpu(operation):
    """Return the device of an operation, with the CPU device of the same number in place of a GPU.

    tensorpack's trainers of several towers place tower N on GPU N, also where there is no GPU.
    """
    return operation.device.replace(":GPU:", ":CPU:")


class TensorpackRuntime(TensorFlow1Runtime):
    """One process that owns the devices of a node: the GPUs in CUDA_VISIBLE_DEVICES, or as many CPU devices.

    Raises:
        Unsupported: There are several replicas, and the plugin lacks the strategy.
    """

    strategies = STRATEGIES

    def __init__(self, request, cluster, process):
        super().__init__(request, cluster, process)
        self.towers = len(process.replicas)
        """Number of towers in the graph: copies of the network, one for each replica of this process."""
        self.config = None
        """The session's options; None until `start`."""
        self.device = _place_on_cpu if request.device == "cpu" else None
        """Function that changes the devices that tensorpack names; None changes none."""

    def start(self):
        """Create the graph and the session's options; CPU devices share the threads of the process.

        TF_XLA_FLAGS is set in this process's environment.

        Raises:
            Unsupported: There are fewer usable GPUs than replicas of this process.
        """
        self.config = self._configure()
        self.config.inter_op_parallelism_threads = self.towers + 1
        if self.request.device == "cuda":
            gpus = tf.config.experimental.list_physical_devices("GPU")
            require_gpus("TensorFlow %s" % tf.__version__, len(gpus), self.towers)
            # As in tensorpack's own options: its step counter has no kernel for GPUs.
            self.config.allow_soft_placement = True
        else:
            self.config.device_count["CPU"] = self.towers
        self.graph = tf.Graph()

    def facts(self):
        """Return a dict of facts for the record: versions of tensorpack and TensorFlow, devices and threads.

        The keys are `framework_version` (tensorpack's), `tensorflow_version`, `devices` (a list of names, one per
        replica), `threads`, their number, and `transport`, which is None.
        """
        kind = "GPU" if self.request.device == "cuda" else "CPU"
        return {
            "framework_version": tensorpack.__version__,
            "tensorflow_version": tf.__version__,
            "devices": ["/device:%s:%d" % (kind, tower) for tower in range(self.towers)],
            "threads": self.threads,
            "transport": None,
        }
