"""The base of TensorFlow 1's trainers: the graph of a step, batches, evidence.

A batch is the dict of NumPy arrays that a session is fed; for an empty one, it takes the canonical batch on the device.
"""

import numpy as np
import tensorflow.compat.v1 as tf

from dlperf_sdk.worker.sources import replace_sources
from dlperf_tensorflow1.precisions import PRECISIONS
from dlperf_tensorflow1.worker.evidence import GraphEvidence, StepRunner
from dlperf_tensorflow1.worker.exchange import VariableExchange, make_exchange
from dlperf_tensorflow1.worker.loading import GeneratorFeed, Loader, repeat_resident
from dlperf_tensorflow1.worker.loss_scale import DynamicScale, NoScale
from dlperf_tensorflow1.worker.optimizers import make_optimizer
from dlperf_tensorflow1.worker.state import ReplicaState
from dlperf_tensorflow1.worker.weights import Weights, make_variable


class TensorFlow1Trainer(ReplicaState):
    """One replica of a network, and its training. A model's subclass implements `build`, `outputs` and `loss`.

    Networks take the tensors of their parameters from `self.weights`, and compute in `self.dtype`.
    """

    precisions, layouts, compilers = PRECISIONS, ("nhwc", "nchw"), {"none": None, "xla": None}
    loader, generator_feed = Loader, GeneratorFeed
    sources = replace_sources(synthetic=repeat_resident)

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        self.dtype = tf.as_dtype(self.precision.products)
        with runtime.graph.as_default(), tf.device(runtime.device):
            parameters = self._build_graph()
        # Each replica initializes the servers' variables to zero; none may do so after another has loaded weights.
        self.exchange.wait_for_all()
        self.load_canonical_weights(parameters)

    # The graph.

    def _build_graph(self):
        """Add the graph of a step, initialize its variables in the session, and return those of the parameters."""
        self.session, self.run_step = self.runtime.session, StepRunner(self.runtime.session)
        self.exchange = make_exchange(self.runtime)
        self.weights = Weights(self.request.parameters, self.layout.upper(), self.exchange.place)
        self.network, self.replica = self.build(self.request.model_options), self.runtime.replica
        self._add_inputs()
        self._add_step()
        self.session.run(tf.global_variables_initializer())
        return self.optimizer.weights.variables

    def _add_inputs(self):
        """Add the inputs: those that are fed, or the variables that hold the canonical batch; and the micro-batch."""
        self.rate = tf.placeholder(tf.float32, ())
        self.step_number = tf.placeholder_with_default(tf.constant(0, tf.int64), ())
        self.piece_number = tf.placeholder_with_default(tf.constant(0, tf.int64), ())
        self.resident, self.inputs, self.piece = {}, {}, {}
        size = self.request.batch_size // self.request.accumulation
        for name, values in self.host_batches()[0].items():
            self.resident[name] = make_variable(values.shape, 0, tf.as_dtype(values.dtype))
            self.inputs[name] = value = tf.placeholder_with_default(self.resident[name], values.shape)
            if self.request.accumulation > 1:
                value = tf.slice(
                    value, [self.piece_number * size] + [0] * (values.ndim - 1), (size, *values.shape[1:])
                )
                value.set_shape((size, *values.shape[1:]))
            self.piece[name] = value

    def _add_step(self):
        """Add the gradients of a micro-batch, their accumulation, and the update with the mean over all replicas."""
        parts, names = self.request.accumulation, [entry["name"] for entry in self.request.parameters]
        outputs = [tf.cast(value, tf.float32) for value in self.outputs(self.network, self.piece)]
        self.mean_loss = self.loss(outputs, self.piece) / parts
        with tf.device(self.runtime.place(0)):
            self.scaler = DynamicScale() if self.scales_loss else NoScale()
        statistics, self.weights.updates = self.weights.updates, []
        gradients = tf.gradients(
            self.scaler.scale_loss(self.mean_loss), [self.weights(name) for name in names]
        )
        # Of embeddings that are only looked up the gradient is sparse.
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        for name, gradient in zip(names, gradients):
            gradient.set_shape(self.weights.variables[name].shape)
        updated = self.exchange.make_updated(self.weights)
        self.optimizer = make_optimizer(self.request.optimizer, updated, self.request.parameters)
        if parts == 1:
            self.update_all = tf.group(self._add_update(gradients), *statistics)
            return
        sums = [make_variable(gradient.shape) for gradient in gradients]
        self.accumulate = tf.group(*(s.assign_add(g) for s, g in zip(sums, gradients)), *statistics)
        update = self._add_update([tf.identity(value) for value in sums])
        with tf.control_dependencies([update]):
            self.update_all = tf.group(*(value.assign(tf.zeros(value.shape)) for value in sums))

    def _add_update(self, gradients):
        """Return the operation that averages the gradients over the replicas, clips them, and updates the weights."""
        return self.exchange.add_update(gradients, lambda means: self.scaler.update(means, self._update))

    def _update(self, gradients):
        clip = self.request.optimizer.get("clip_norm")
        if clip is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, clip)
        return self.optimizer.apply(gradients, self.rate)

    def drop(self, x, layer):
        """Return the tensor x with elements set to 0 with the probability p, `dropout`, others divided by 1 - p.

        The mask depends on the seed, the replica, the step, the micro-batch and `layer`, the dropout layer's number.
        """
        if not self.dropout:
            return x
        base = (layer << 40) + self.request.seed + (self.replica << 20)
        number = self.step_number * self.request.accumulation + self.piece_number
        chance = tf.random.stateless_uniform(x.shape, tf.stack([tf.constant(base, tf.int64), number]))
        return x * tf.cast(chance >= self.dropout, x.dtype) / (1.0 - self.dropout)

    # Batches.

    def place(self, batches):
        """Return the one item of `batches`, a dict of NumPy arrays; a session copies the arrays when they are fed."""
        return batches[0]

    def labels(self, batch):
        """Return the array of labels in `batch` or, if that is empty, in the device's batch; None without labels."""
        if self.label_name is None or batch:
            return super().labels(batch)
        return self._resident_labels

    # The step.

    def train(self, batch, rate):
        """Run a step on `batch`, a dict from `place`, with the learning rate `rate`; return its loss, a number."""
        feed = {self.inputs[name]: values for name, values in batch.items()}
        feed.update({self.rate: rate, self.step_number: self.steps - self.first_step - 1})
        if self.request.accumulation == 1:
            return self.run_step((self.mean_loss, self.update_all), feed)[0]
        losses = [
            self.run_step((self.mean_loss, self.accumulate), {**feed, self.piece_number: number})[0]
            for number in range(self.request.accumulation)
        ]
        self.session.run(self.update_all, {self.rate: rate})
        return sum(losses)

    def gradient_exchange(self):
        """Return a `VariableExchange` of variables with the gradients' shapes, averaged as `step` averages them."""
        shapes = {name: variable.shape for name, variable in self.weights.variables.items()}
        return VariableExchange(self.runtime, self.exchange.average, shapes)

    # Evidence for what was in effect.

    def outputs_and_references(self):
        """Return the logits of the canonical batch's first micro-batch twice, as a pair: as in `step`, and in fp32.

        Each is a list of one NumPy array per head.
        """
        feed = {self.inputs[name]: values for name, values in self.canonical_batch().items()}
        of_step = self.dtype
        with self.runtime.graph.as_default(), tf.device(self.runtime.device):
            outputs = references = list(self.outputs(self.network, self.piece))
            if of_step != tf.float32:
                self.dtype = tf.float32
                references = list(self.outputs(self.network, self.piece))
                self.dtype = of_step
        return self.session.run(outputs, feed), self.session.run(references, feed)

    def widen(self, value):
        """Return `value`, a NumPy array of `outputs_and_references`, as a float64 NumPy array."""
        return value.astype(np.float64)

    def observe_settings(self):
        """Return a dict: `precision`, `compiler`, `layout` (None if unknown), `strategy` (None for none) in effect."""
        targets = [self.mean_loss.op, self.update_all]
        evidence = GraphEvidence(targets if self.request.accumulation == 1 else [*targets, self.accumulate])
        self.product_types = evidence.product_types()
        return {
            "precision": self.name_precision({v.dtype for v in self.weights.variables.values()}, tf32=False),
            "compiler": self.run_step.compiler,
            "layout": evidence.layout(),
            "strategy": evidence.strategy(),
        }
