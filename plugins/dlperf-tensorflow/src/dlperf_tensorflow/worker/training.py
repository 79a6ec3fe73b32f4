"""What every TensorFlow trainer shares: a replica's step, input, parameters, evidence for the precision.

A model's own file has its network, its loss, and nothing else. Several replicas of one process live in the
strategy's scope: each variable has a copy per replica, and what runs in a replica's context (`strategy.run`)
reads and writes its own copy. Gradients meet in one place, `_replica_step`, which `synchronous` runs in this process,
and `asynchronous` on servers, where there is one copy for all.
"""

import itertools

import numpy as np
import tensorflow as tf

from dlperf_sdk.worker import canonical
from dlperf_sdk.worker.interface import Step, Trainer
from dlperf_sdk.worker.schedule import learning_rate
from dlperf_tensorflow.worker import evidence
from dlperf_tensorflow.worker.asynchronous import Scheduled, beside
from dlperf_tensorflow.worker.optimizers import LossScale, optimizer_for
from dlperf_tensorflow.worker.synchronous import Together
from dlperf_tensorflow.worker.weights import Weights

COMPUTE = {"amp-fp16": tf.float16, "amp-bf16": tf.bfloat16}
"""Precision → the type of convolutions and matrix products, where it is not float32."""


class TensorFlowTrainer(Trainer):
    """The replicas of this process. A model implements `build`, `outputs` and `loss`."""

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        self.strategy = runtime.strategy
        self.dtype = COMPUTE.get(request.precision, tf.float32)
        with self.strategy.scope():
            self.weights = Weights(request, self.strategy)
            self.network = self.build(self.weights, request.model_options)
            self.weights.complete(request.model)
            self.variables = [self.weights.variables[entry["name"]] for entry in request.parameters]
            decays = [entry["decay"] for entry in request.parameters]
            near = beside if runtime.served else None
            self.optimizer = optimizer_for(request.optimizer, self.variables, decays, near)
            # Only fp16's narrow exponent needs one.
            self.loss_scale = LossScale() if request.precision == "amp-fp16" else None
        # XLA takes what one replica computes by itself; the collectives stay outside.
        self._gradients = self._compiled(self._gradients_of_all_pieces)
        self._update = self._compiled(self._update_variables)
        self._steps = 0
        self._loaders = []
        self._replicas = self._on_servers() if runtime.served else self._in_this_process()

    def _on_servers(self):
        return Scheduled(self.runtime.coordinator, self._replica_step, self._host_batches())

    def _in_this_process(self):
        kind, replicas = self.request.device, self.process.replicas
        return Together(self.strategy, self._replica_step, self._host_batches, kind, replicas)

    def _compiled(self, function):
        if self.request.compiler != "xla":
            return function
        return tf.function(function, autograph=False, jit_compile=True)

    # What a model implements. The bodies here are no gaps: a model that lacks one is told which.

    def build(self, weights, options):
        """The network: a callable whose variables come from `weights`, every parameter of the manifest."""
        raise NotImplementedError("a tensorflow model implements build()")

    def outputs(self, network, batch, dtype, dropout):
        """A tuple of tensors, logits, computed in `dtype`; `dropout` says whether there is any."""
        raise NotImplementedError("a tensorflow model implements outputs()")

    def loss(self, outputs, batch):
        """The loss of those outputs, a scalar in float32: the mean over the batch."""
        raise NotImplementedError("a tensorflow model implements loss()")

    # Input.

    def _host_batch(self, replica):
        """The canonical shard of a replica of this process, as NumPy arrays in the network's layout."""
        arrays = canonical.batch_of(self.request, self.process.replicas[replica])
        if self.weights.layout == "NHWC" and "image" in arrays:
            arrays["image"] = np.ascontiguousarray(arrays["image"].transpose(0, 2, 3, 1))
        return arrays

    def _host_batches(self):
        return [self._host_batch(replica) for replica in range(len(self.process.replicas))]

    def canonical_batch(self):
        """The canonical shards of this process's replicas, on their devices; None where servers hold them."""
        return self._replicas.canonical_batch()

    def batches(self):
        """The data source's batches, on the devices, without end."""
        source = self.request.data["source"]
        if source == "synthetic":
            return itertools.repeat(self.canonical_batch())
        if source == "synthetic-host":
            with tf.device("CPU:0"):
                batches = [
                    {name: tf.constant(values) for name, values in batch.items()}
                    for batch in self._host_batches()
                ]
            return map(self._replicas.placed, itertools.repeat(batches))
        if source == "images":
            from dlperf_tensorflow.worker import images as loaders
        else:
            from dlperf_tensorflow.worker import text as loaders
        self._loaders = [loaders.batches(self.request, replica) for replica in self.process.replicas]
        return map(self._replicas.placed, zip(*self._loaders))

    def prefetched_batches(self):
        """What the pipelines hold ready; synthetic data needs none."""
        return max((loader.prefetched for loader in self._loaders), default=0)

    # The step.

    def step(self, batch):
        """One optimisation step over all micro-batches of all replicas of this process."""
        optimizer = self.request.optimizer
        rate = learning_rate(optimizer, optimizer["policy"], self._steps)
        self._steps += 1
        loss = self._replicas.step(batch, rate)
        return Step(loss, self.request.batch_size * len(self.process.replicas))

    def _replica_step(self, batch, rate):
        """What one replica does in a step, in its own context; the value is its loss."""
        loss, gradients = self._gradients(batch)
        if self.runtime.meets:
            context = tf.distribute.get_replica_context()
            mean = tf.distribute.ReduceOp.MEAN
            gradients = context.all_reduce(mean, gradients, self.runtime.communication())
        self._update(gradients, rate)
        return loss

    def _gradients_of_all_pieces(self, batch):
        """The mean of the micro-batches' losses and gradients, one micro-batch after another."""
        count = self.request.accumulation
        if count == 1:
            return self._gradients_of(batch)
        pieces = self._pieces(batch)

        def add(i, loss, gradients):
            more, others = self._gradients_of({name: value[i] for name, value in pieces.items()})
            return i + 1, loss + more, [a + b for a, b in zip(gradients, others)]

        zeros = [tf.zeros(variable.shape) for variable in self.variables]
        _, loss, gradients = tf.while_loop(
            lambda i, *_: i < count,
            add,
            (tf.constant(0), tf.constant(0.0), zeros),
            parallel_iterations=1,
            maximum_iterations=count,
        )
        return loss / count, [gradient / count for gradient in gradients]

    def _pieces(self, batch):
        """Every input with a new first axis, of micro-batches."""
        count = self.request.accumulation
        return {
            name: tf.reshape(value, (count, value.shape[0] // count, *value.shape[1:]))
            for name, value in batch.items()
        }

    def _gradients_of(self, batch):
        """The loss of a micro-batch, and the gradients (of the scaled loss, where it is scaled)."""
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(self.variables)
            loss = self.loss(self.outputs(self.network, batch, self.dtype, dropout=True), batch)
            scaled = loss if self.loss_scale is None else loss * self.loss_scale.scale
        gradients = tape.gradient(scaled, self.variables)
        # Of embeddings that are only looked up the gradient is sparse.
        return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]

    def _update_variables(self, gradients, rate):
        """Clip, and move this replica's copy of the variables."""
        clip = self.request.optimizer.get("clip_norm")

        def apply(gradients):
            if clip is not None:
                gradients, _ = tf.clip_by_global_norm(gradients, clip)
            self.optimizer.apply(gradients, rate)

        if self.loss_scale is None:
            apply(gradients)
        else:
            self.loss_scale.update(gradients, apply)

    # What is read when the clock has stopped.

    def skipped_steps(self):
        """Steps whose scaled gradients were not finite."""
        if self.loss_scale is None:
            return 0
        return int(self.strategy.experimental_local_results(self.loss_scale.skipped)[0].numpy())

    def read_loss(self, loss):
        """The losses of this process's replicas."""
        return [float(value.numpy()) for value in self.runtime.losses(loss)]

    def parameters(self, replica):
        """A replica's own copies, their axes in the manifest's order again."""
        for entry in self.request.parameters:
            yield entry["name"], self.weights.in_manifests_layout(entry["name"], replica)

    def running_means(self, replica):
        """Of every batch norm."""
        for name, variable in self.weights.statistics.items():
            if name.endswith("running_mean"):
                yield name, self.weights.copy_of(variable, replica).numpy()

    # Evidence for what was in effect.

    def deviation(self):
        """‖y - y32‖ / ‖y32‖ over the logits of the canonical batch's first micro-batch, over all replicas here.

        y comes from the network as `step` traces and compiles it, in the precision's type; y32 from the same
        network in float32 without TF32, eagerly where this process computes. In both dropout is off, batch norm uses
        the batch's statistics, and no trace stays.
        """

        def forward(batch, dtype):
            first = {name: value[0] for name, value in self._pieces(batch).items()}
            return self.outputs(self.network, first, dtype, dropout=False)

        def plain(batch):
            return forward(batch, tf.float32)

        in_effect = self._compiled(lambda batch: forward(batch, self.dtype))
        with evidence.undisturbed(self.strategy, self.weights.statistics.values()):
            values, references = self._replicas.outputs(in_effect, plain)
        return evidence.apart(values, references)

    def observed(self):
        """What was in effect, read from the graph that `step` runs."""
        seen = evidence.Seen(self._replicas.graph())
        found = {
            "precision": seen.precision(self.request.device),
            "compiler": seen.compiler(),
            "accumulation": self.request.accumulation,
        }
        if seen.layout():
            found["layout"] = seen.layout()
        if self._replicas.name:
            found["strategy"] = self._replicas.name
        if self._loaders:
            # A replica's samples may be one fewer than another's: the facts are those of the fewest.
            fewest = min(self._loaders, key=lambda loader: loader.facts["samples_per_replica"])
            found["data"] = fewest.facts
        return found
