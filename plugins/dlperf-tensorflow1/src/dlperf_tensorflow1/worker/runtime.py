"""The runtime of TensorFlow 1 in a worker process: the graph, its session, and the session's server and device."""

import os

import tensorflow.compat.v1 as tf

from dlperf_sdk.worker import horovod
from dlperf_sdk.worker.gpu.requirements import require_gpus
from dlperf_sdk.worker.interface import Runtime
from dlperf_tensorflow1.processes import STRATEGIES, plan_with_servers
from dlperf_tensorflow1.worker import cluster as clusters


class TensorFlow1Runtime(Runtime):
    """One process that owns one device: the CPU, or the GPU in CUDA_VISIBLE_DEVICES.

    Raises:
        Unsupported: There are several replicas, and the plugin lacks the strategy.
    """

    strategies = STRATEGIES

    def __init__(self, request, cluster, process):
        super().__init__(request, cluster, process)
        self.clock = "lagged" if request.device == "cuda" else "blocking"
        self.replica, self.replicas = process.replicas[0], cluster.world_size
        self.threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
        self.graph = None
        """The graph that the trainer builds; None until `start`, as the session."""
        self.session = None
        self.device = "/device:%s:0" % ("GPU" if request.device == "cuda" else "CPU")
        """Name of this process's device, with its job and index if there are several processes."""
        served = self.syncs_gradients and self.strategies[request.strategy] is plan_with_servers
        self.servers = len(cluster.nodes) if served else 0
        """Number of parameter servers."""
        self.uses_horovod = self.syncs_gradients and request.strategy == "horovod"
        """True if Horovod synchronizes the gradients."""
        self.hvd = None
        """Horovod's module; None without it, and until `start`."""

    def place(self, number):
        """Return the name of the device that updates a parameter: this process's device, or that of a parameter server.

        `number` is the parameter's number in the manifest, from 0. The servers take turns.
        """
        if self.servers:
            return "/job:ps/task:%d/device:CPU:0" % (number % self.servers)
        return self.device

    def start(self):
        """Create the graph and its session, in a server of this process if TensorFlow synchronizes the gradients.

        With Horovod, join the other processes first. TF_XLA_FLAGS is set in this process's environment.

        Raises:
            Unsupported: No usable GPU is found.
            OSError: Horovod's rendezvous server did not accept a connection in time.
        """
        config = self._configure()
        if self.request.device == "cuda":
            gpus = tf.config.experimental.list_physical_devices("GPU")
            require_gpus("TensorFlow %s" % tf.__version__, len(gpus), 1)
        target = ""
        if self.uses_horovod:
            self.hvd = horovod.join("horovod.tensorflow", max(self.request.deadlines.values()))
        elif self.syncs_gradients:
            job = "/job:worker/task:%d" % self.replica
            self.device = job + self.device
            config.device_filters.extend(["/job:ps", job])
            if not self.servers:
                config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
            target = clusters.start_server(config).target
        self.graph = tf.Graph()
        self.session = tf.Session(target, self.graph, config)

    def _configure(self):
        """Return the session's options: threads, the compiler, and no automatic layout if a layout was requested.

        A second thread between operations lets one that waits for another process not stop the others.
        """
        config = tf.ConfigProto(
            intra_op_parallelism_threads=self.threads,
            inter_op_parallelism_threads=2,
            allow_soft_placement=False,
        )
        if self.request.layout != "auto":
            config.graph_options.rewrite_options.layout_optimizer = clusters.OFF
        # TensorFlow reads this variable once in a process. Without it, `global_jit_level` affects GPUs only.
        os.environ["TF_XLA_FLAGS"] = "--tf_xla_cpu_global_jit"
        if self.request.compiler == "xla":
            config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
        return config

    def seed(self):
        """Return True, and set nothing: there is no random state.

        Dropout's masks are a function of the request's seed, the replica and the step.
        """
        return True

    def wait(self, loss):
        """Return at once: a session returns when the step has finished, on a GPU as well. `loss` is not used."""

    def facts(self):
        """Return a dict of facts for the record: versions, device, threads and transport.

        The keys are `framework_version`, `devices` (a list of one name), `threads`, their number, and `transport`
        (`grpc`; None without synchronization). With Horovod, `horovod_version` is added, and `transport` is `nccl` or
        `gloo`.
        """
        return {
            "framework_version": tf.__version__,
            "devices": [self.device],
            "threads": self.threads,
            "transport": "grpc" if self.syncs_gradients else None,
            **(horovod.facts(self.hvd, self.request.device) if self.uses_horovod else {}),
        }

    def is_out_of_memory(self, error):
        """Return True if `error` is a MemoryError or TensorFlow's ResourceExhaustedError."""
        return isinstance(error, (tf.errors.ResourceExhaustedError, MemoryError))

    def stop(self):
        """Close the session, and leave Horovod if it is used.

        TensorFlow has no call that stops a server: it ends with the process.
        """
        self.session.close()
        if self.uses_horovod:
            self.hvd.shutdown()
