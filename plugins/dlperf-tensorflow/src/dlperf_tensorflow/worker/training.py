"""The base of TensorFlow's trainers: batches, the step, evidence. A model's own file has its network and its loss.

The replicas of a process live in the strategy's scope: each variable has a copy per replica, which is read and written
in that replica's context (`strategy.run`). The gradients of all replicas are averaged in `_replica_step`. `synchronous`
runs that in this process, and `asynchronous` on servers, where each variable has one copy for all.
"""

import contextlib
from functools import partial

import tensorflow as tf

from dlperf_sdk.worker.sources import replace_sources
from dlperf_tensorflow.precisions import PRECISIONS
from dlperf_tensorflow.worker import evidence
from dlperf_tensorflow.worker.asynchronous import Scheduled, place_beside
from dlperf_tensorflow.worker.compilers import COMPILERS
from dlperf_tensorflow.worker.exchange import AllReduceExchange
from dlperf_tensorflow.worker.gradients import accumulate, split
from dlperf_tensorflow.worker.images import load_images
from dlperf_tensorflow.worker.loading import GeneratorFeed, Loader
from dlperf_tensorflow.worker.optimizers import ConstantScale, DynamicScale, optimizer_for
from dlperf_tensorflow.worker.state import ReplicaState
from dlperf_tensorflow.worker.synchronous import MirroredReplicas
from dlperf_tensorflow.worker.text import load_text
from dlperf_tensorflow.worker.weights import Weights


class TensorFlowTrainer(ReplicaState):
    """The replicas of this process, and their training. A model's subclass implements `build`, `outputs` and `loss`.

    Networks take their variables from `self.weights`, and compute in `self.dtype`.
    """

    precisions, compilers, layouts = PRECISIONS, COMPILERS, ("nhwc", "nchw")
    loader, generator_feed = Loader, GeneratorFeed
    sources = replace_sources(images=load_images, text=load_text)

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        self.strategy, self.dtype = runtime.strategy, tf.as_dtype(self.precision.products)
        with self.strategy.scope():
            dtype = tf.as_dtype(self.precision.weights)
            self.weights = Weights(request.parameters, self.strategy, self.layout.upper(), dtype)
            self.network = self.build(request.model_options)
            self.plain = self.network if dtype == tf.float32 else self.build(request.model_options)
            self.load_canonical_weights(self.weights.variables)
            self.variables = [self.weights.variables[entry["name"]] for entry in request.parameters]
            decays = [entry["decay"] for entry in request.parameters]
            self.trained = [self.weights.trained[entry["name"]] for entry in request.parameters]
            self.place_near = place_beside if runtime.served else contextlib.nullcontext
            self.optimizer = optimizer_for(request.optimizer, self.variables, decays, self.place_near)
            self.scaler = DynamicScale() if self.scales_loss else ConstantScale(self.loss_scale)
        # XLA takes what one replica computes by itself; the collectives stay outside.
        self._gradients = self.compiler(self._accumulate)
        self._update = self.compiler(self._update_variables)
        if runtime.served:
            self._replicas = Scheduled(runtime.coordinator, self._replica_step, self.host_batches())
        else:
            self._replicas = MirroredReplicas(
                self.strategy, self._replica_step, request.device, process.replicas
            )

    # Batches.

    def stage(self, batches):
        """Return `batches`, a list of dicts of NumPy arrays, with tensors on the host in place of the arrays."""
        with tf.device("CPU:0"):
            return [{name: tf.constant(v) for name, v in batch.items()} for batch in batches]

    def place(self, batches):
        """Return the batch that `step` takes, a dict from input name to value on the replicas' devices.

        A value is a tensor if there is one replica, else a per-replica value of `tf.distribute`. `batches` has one dict
        of arrays or tensors per replica of this process. With parameter servers, the result is None: the computing
        servers hold the batches.
        """
        return self._replicas.place(batches)

    def read_labels(self, labels):
        """Return a list of NumPy arrays, the labels of each replica; `labels` is what the method `labels` returned."""
        return [value.numpy() for value in self.strategy.experimental_local_results(labels)]

    # The step: micro-batches are in the graph.

    def train(self, batch, rate):
        """Run a step on `batch`, a result of `place`, with the learning rate `rate`; return losses for `read_loss`."""
        return self._replicas.step(batch, rate)

    def _replica_step(self, batch, rate):
        """Train one replica, in its own context; return its loss."""
        loss, gradients = self._gradients(batch)
        if self.runtime.averages_gradients:
            context = tf.distribute.get_replica_context()
            mean = tf.distribute.ReduceOp.MEAN
            gradients = context.all_reduce(mean, gradients, self.runtime.communication())
        self._update(gradients, rate)
        return loss

    def _accumulate(self, batch):
        return accumulate(self._gradients_of, batch, self.request.accumulation, self.trained)

    def _gradients_of(self, batch):
        """Return the loss of a micro-batch, and the gradients (of the scaled loss, where it is scaled)."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self.trained)
            loss = self.loss(self.outputs(self.network, batch), batch)
            scaled = self.scaler.scale_loss(loss)
        gradients = tape.gradient(scaled, self.trained)
        # Of embeddings that are only looked up the gradient is sparse.
        return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]

    def _update_variables(self, gradients, rate):
        """Clip the gradients, and update this replica's copy of the variables."""
        clip = self.request.optimizer.get("clip_norm")

        def apply(gradients):
            if clip is not None:
                gradients, _ = tf.clip_by_global_norm(gradients, clip)
            self.optimizer.apply(gradients, rate)

        self.scaler.update([tf.cast(gradient, tf.float32) for gradient in gradients], apply)
        self.weights.round_masters(self.place_near)

    def gradient_exchange(self):
        """Return an `AllReduceExchange` of tensors with the gradients' shapes and types, in a separate graph."""
        return AllReduceExchange(self.runtime, self.trained, self.place)

    def reset_optimizer(self):
        """Set the moments and counts of updates to zero, and the loss scale to its first value, in every replica."""
        for variable, value in (*self.optimizer.initial_values(), *self.scaler.initial_values()):
            for copy in self.strategy.experimental_local_results(variable):
                copy.assign(tf.fill(copy.shape, tf.cast(value, copy.dtype)))

    def skipped_steps(self):
        """Return the number of updates that the loss scaler skipped so far because a gradient was not finite."""
        return int(self.strategy.experimental_local_results(self.scaler.skipped)[0])

    def read_loss(self, loss):
        """Return a list of floats, the loss of each replica of this process; `loss` is what `train` returned."""
        return [float(value.numpy()) for value in self.runtime.read_losses(loss)]

    # Evidence for what was in effect.

    def outputs_and_references(self):
        """Return the logits of the canonical batch's first micro-batch twice, as a pair: as in `step`, and in fp32.

        Each is a list of one tensor per head and replica of this process, in the same order. The first is traced and
        compiled, as in `step`. The second is computed without TF32, and eagerly unless there are parameter servers. The
        running statistics of batch norm are restored.
        """
        batch = self.canonical_batch()
        outputs_function = self.compiler(partial(self._first_outputs, self.network))
        plain = partial(self._first_outputs, self.plain)
        with evidence.preserve_state(self.strategy, self.weights.statistics.values()):
            outputs = self._replicas.traced_outputs(outputs_function, batch)
            dtype, self.dtype = self.dtype, tf.float32
            try:
                return outputs, self._replicas.plain_outputs(plain, batch)
            finally:
                self.dtype = dtype

    def _first_outputs(self, network, batch):
        pieces = split(batch, self.request.accumulation)
        return self.outputs(network, {name: value[0] for name, value in pieces.items()})

    def widen(self, value):
        """Return `value`, a tensor of `outputs_and_references`, as a float64 NumPy array."""
        return value.numpy().astype("float64")

    def observe_settings(self):
        """Return a dict: `precision`, `compiler`, `layout` (None if unknown), `strategy` (None for none) in effect."""
        graph_evidence = evidence.GraphEvidence(self._replicas.graph(self.canonical_batch()))
        self.product_types = graph_evidence.product_types()
        return {
            "precision": self.name_precision(self.weights.types(), evidence.allows_tf32(self.request.device)),
            "compiler": graph_evidence.compiler(),
            "layout": graph_evidence.layout() or None,
            "strategy": self._replicas.name,
        }
