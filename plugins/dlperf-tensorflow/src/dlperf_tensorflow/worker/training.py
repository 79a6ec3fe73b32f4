"""What every TensorFlow trainer shares: weights, the step, input, parameters, evidence for the precision.

A model's own file has its network, its loss, and nothing else. Several replicas of one process live in the
strategy's scope: each variable has a copy per replica, and what runs in a replica's context (`strategy.run`)
reads and writes its own copy. Gradients meet in one place, `_replica_step`. With parameter servers there is one copy
for all, and servers run `_replica_step` (`asynchronous`).
"""

import itertools

import numpy as np
import tensorflow as tf

from dlperf_sdk.worker import canonical
from dlperf_sdk.worker.interface import Step, Trainer
from dlperf_sdk.worker.schedule import learning_rate
from dlperf_tensorflow.worker import asynchronous, evidence
from dlperf_tensorflow.worker.optimizers import LossScale, optimizer_for

COMPUTE = {"amp-fp16": tf.float16, "amp-bf16": tf.bfloat16}
"""Precision → the type of convolutions and matrix products, where it is not float32."""


class Weights:
    """Makes a network's variables, each with the canonical values in every replica's copy."""

    def __init__(self, request, strategy):
        self.layout = "NCHW" if request.layout == "nchw" else "NHWC"
        """Of images, as TensorFlow's operations call it."""
        self.variables = {}
        self.statistics = {}
        self._axes = {}
        self._strategy, self._seed = strategy, request.seed
        self._entries = {entry["name"]: entry for entry in request.parameters}

    def __call__(self, name, axes=None):
        """The variable of a parameter of the manifest, its axes in the order `axes` of the manifest's."""
        ((_, values),) = canonical.weights([self._entries.pop(name)], self._seed)
        values = values if axes is None else values.transpose(axes)
        # Every replica sets its own copy: with several workers, the first one's initial value goes to all.
        variable = self.variables[name] = tf.Variable(tf.zeros(values.shape), name=name)
        for copy in self._strategy.experimental_local_results(variable):
            copy.assign(values)
        self._axes[name] = axes
        return variable

    def statistic(self, name, initial):
        """A variable that is not trained."""
        variable = self.statistics[name] = tf.Variable(initial, trainable=False, name=name)
        return variable

    def complete(self, model):
        """Raises ValueError where the network has not asked for everything."""
        if self._entries:
            raise ValueError("the network of %s lacks %s" % (model, ", ".join(sorted(self._entries))))

    def copy_of(self, variable, replica):
        """The copy that a replica of this process reads: its own, or the parameter servers' only one."""
        copies = self._strategy.experimental_local_results(variable)
        return copies[replica] if len(copies) > 1 else copies[0]

    def in_manifests_layout(self, name, replica):
        """A replica's values of a parameter as the manifest lays them out: float32, C order."""
        values = self.copy_of(self.variables[name], replica).numpy()
        axes = self._axes[name]
        return values if axes is None else np.ascontiguousarray(values.transpose(np.argsort(axes)))


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
            near = asynchronous.beside if runtime.served else None
            self.optimizer = optimizer_for(request.optimizer, self.variables, decays, near)
            # Only fp16's narrow exponent needs one.
            self.loss_scale = LossScale() if request.precision == "amp-fp16" else None
        # XLA takes what one replica computes by itself; the collectives stay outside.
        self._gradients = self._compiled(self._gradients_of_all_pieces)
        self._update = self._compiled(self._update_variables)
        self._train = tf.function(self._all_replicas_step, autograph=False)
        self._steps = 0
        self._loaders = []
        self._scheduled = None
        if runtime.served:
            replicas = process.replicas
            shards = [self._host_batch(replica) for replica in range(2)]
            self._scheduled = asynchronous.Scheduled(
                runtime.coordinator, self._replica_step, shards, replicas
            )

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
        request = self.request
        shard = canonical.shard(self.process.replicas[replica])
        arrays = canonical.batch(request.inputs, request.batch_size, shard, request.seed)
        if self.weights.layout == "NHWC" and "image" in arrays:
            arrays["image"] = np.ascontiguousarray(arrays["image"].transpose(0, 2, 3, 1))
        return arrays

    def _placed(self, batches):
        """One batch per replica, each on its replica's device, as `strategy.run` takes them."""
        placed = []
        for replica, batch in enumerate(batches):
            with tf.device("%s:%d" % ("GPU" if self.request.device == "cuda" else "CPU", replica)):
                placed.append({name: tf.identity(value) for name, value in batch.items()})
        if len(placed) == 1:
            return placed[0]
        first = self.process.replicas[0]
        return self.strategy.experimental_distribute_values_from_function(
            lambda context: placed[context.replica_id_in_sync_group - first]
        )

    def canonical_batch(self):
        """The canonical shards of this process's replicas, on their devices; None where servers hold them."""
        if self._scheduled is not None:
            return None
        return self._placed([self._host_batch(replica) for replica in range(len(self.process.replicas))])

    def batches(self):
        """The data source's batches, on the devices, without end."""
        source = self.request.data["source"]
        if source == "synthetic":
            return itertools.repeat(self.canonical_batch())
        if source == "synthetic-host":
            with tf.device("CPU:0"):
                batches = [
                    {name: tf.constant(values) for name, values in self._host_batch(replica).items()}
                    for replica in range(len(self.process.replicas))
                ]
            return map(self._placed, itertools.repeat(batches))
        if source == "images":
            from dlperf_tensorflow.worker import images as loaders
        else:
            from dlperf_tensorflow.worker import text as loaders
        self._loaders = [loaders.batches(self.request, replica) for replica in self.process.replicas]
        return map(self._placed, zip(*self._loaders))

    def prefetched_batches(self):
        """What the pipelines hold ready; synthetic data needs none."""
        return max((loader.prefetched for loader in self._loaders), default=0)

    # The step.

    def step(self, batch):
        """One optimisation step over all micro-batches of all replicas of this process."""
        optimizer = self.request.optimizer
        rate = learning_rate(optimizer, optimizer["policy"], self._steps)
        self._steps += 1
        if self._scheduled is None:
            loss = self._train(batch, tf.constant(rate, tf.float32))
        else:
            # A step is one update for each replica: together they weigh what one with the mean of the gradients does.
            loss = self._scheduled.step(rate / len(self.process.replicas))
        return Step(loss, self.request.batch_size * len(self.process.replicas))

    def _all_replicas_step(self, batch, rate):
        return self.strategy.run(self._replica_step, (batch, rate))

    def _replica_step(self, batch, rate):
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
        network run eagerly, in float32 without TF32. Servers run no eager code, and compute a graph of it. In both
        dropout is off, batch norm uses the batch's statistics, and no trace stays.
        """

        def forward(batch, dtype):
            first = {name: value[0] for name, value in self._pieces(batch).items()}
            return self.outputs(self.network, first, dtype, dropout=False)

        def plain(batch):
            return forward(batch, tf.float32)

        in_effect = self._compiled(lambda batch: forward(batch, self.dtype))
        with evidence.undisturbed(self.strategy, self.weights.statistics.values()):
            if self._scheduled is not None:
                values, references = map(self._scheduled.outputs, (in_effect, plain))
            else:
                traced = tf.function(lambda batch: self.strategy.run(in_effect, (batch,)), autograph=False)
                batch = self.canonical_batch()
                values = self._of_all_replicas(traced(batch))
                with evidence.plain_fp32():
                    references = self._of_all_replicas(self.strategy.run(plain, (batch,)))
        return evidence.apart(values, references)

    def _of_all_replicas(self, outputs):
        return [value for output in outputs for value in self.strategy.experimental_local_results(output)]

    def observed(self):
        """What was in effect, read from the graph that `step` runs."""
        if self._scheduled is not None:
            graph = self._scheduled.graph
        else:
            graph = self._train.get_concrete_function(self.canonical_batch(), tf.constant(0.0)).graph
        seen = evidence.Seen(graph)
        found = {
            "precision": seen.precision(self.request.device),
            "compiler": seen.compiler(),
            "accumulation": self.request.accumulation,
        }
        if seen.layout():
            found["layout"] = seen.layout()
        if self._scheduled is not None:
            found["strategy"] = "parameter_server_async"
        elif self.strategy.num_replicas_in_sync > 1:
            found["strategy"] = "all_reduce"
        if self._loaders:
            found["data"] = self._loaders[0].facts
        return found
