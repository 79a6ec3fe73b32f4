"""The base of JAX's trainers: batches, evidence, and the step, which XLA compiles as one program for all replicas."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from dlperf_jax.precisions import PRECISIONS
from dlperf_jax.worker import evidence
from dlperf_jax.worker.exchange import TreeExchange
from dlperf_jax.worker.optimizers import LossScale, optimizer_for
from dlperf_jax.worker.replicas import COPIED, SPLIT
from dlperf_jax.worker.scope import Scope
from dlperf_jax.worker.state import STATE, ReplicaState
from dlperf_sdk.worker.loading import ThreadLoader


class JaxTrainer(ReplicaState):
    """The replicas of this process, and their training. A model's subclass implements `build`, `outputs` and `loss`.

    A network is a function of a `Scope` and the model's inputs.
    """

    precisions, layouts, loader = PRECISIONS, ("nhwc",), ThreadLoader

    def __init__(self, runtime, request, process):
        super().__init__(runtime, request, process)
        self.replicas = runtime.replicas
        self.network = self.build(request.model_options)
        decays = {entry["name"]: entry["decay"] for entry in request.parameters}
        self.optimizer = optimizer_for(request.optimizer, decays)
        self.scaler = LossScale(self.loss_scale, self.scales_loss)
        self.state = {"weights": {}}
        names, statistics = self._trace_network()
        self.load_canonical_weights(dict.fromkeys(names))
        self.state["statistics"] = {name: self._place(value, SPLIT) for name, value in statistics.items()}
        self.reset_optimizer()
        self._trace_step()
        runtime.newest = self.state

    def _trace_step(self):
        """Trace the whole step of one replica, and have it compiled before it is run next."""
        program = self.replicas.program(
            self._train_replica, (STATE, SPLIT, COPIED), (STATE, SPLIT), donates=0
        )
        self._traced = program.trace(self.state, self.canonical_batch(), np.float32(0))
        self._step = None

    # Batches.

    def place(self, batches):
        """Return one batch over all replicas, a dict from input name to array: each device holds its replica's samples.

        `batches` has one dict per replica of this process, in order: the input's name → a NumPy array.
        """
        return {name: self.replicas.place([batch[name] for batch in batches], SPLIT) for name in batches[0]}

    def read_labels(self, labels):
        """Return the labels of this process's replicas, a list of NumPy arrays; `labels` is split over all replicas."""
        return self.replicas.read(labels)

    # The step: one program, micro-batches included.

    def train(self, batch, rate):
        """Enqueue a step on `batch` with learning rate `rate`; return the losses, (N,), of all N training replicas."""
        if self._step is None:
            self._step = self._traced.lower().compile()
        self.state, loss = self._step(self.state, batch, np.float32(rate))
        self.runtime.newest = self.state
        return loss

    def _train_replica(self, state, batch, rate):
        """Train one replica; return its next state, and its loss as an array of one."""
        key, used = jax.random.split(state["keys"][0])
        masters, scale = state["weights"], state["scale"]["scale"]
        weights = self._store_weights(masters, self.precision.weights)
        self.weight_types = {value.dtype for value in weights.values() if value.ndim > 1}
        loss, statistics, gradients = self._accumulate(weights, state["statistics"], batch, used, scale)
        averaged = self.replicas.average(gradients)
        gradients = jax.tree.map(lambda value: value.astype(jnp.float32), averaged)
        if self.scales_loss or self.loss_scale != 1:
            gradients = jax.tree.map(lambda value: value / scale, gradients)
        updates, optimizer = self.optimizer.update(gradients, state["optimizer"], masters)
        updated = optax.apply_updates(masters, jax.tree.map(lambda value: -rate * value, updates))
        scale, (masters, optimizer) = self.scaler.update(
            state["scale"], gradients, (updated, optimizer), (masters, state["optimizer"])
        )
        state = {
            "weights": masters,
            "optimizer": optimizer,
            "scale": scale,
            "statistics": statistics,
            "keys": key[None],
        }
        return state, loss[None]

    def _accumulate(self, weights, statistics, batch, key, scale):
        """Return the mean of the micro-batches' losses and gradients, and the statistics after the last one."""
        count = self.request.accumulation

        def add(carried, piece):
            loss, statistics, gradients, key = carried
            key, used = jax.random.split(key)
            (_, (addend, statistics)), piece_gradients = jax.value_and_grad(self._scaled_loss, has_aux=True)(
                weights, statistics, piece, used, scale
            )
            return (loss + addend, statistics, jax.tree.map(jnp.add, gradients, piece_gradients), key), None

        zeros = jax.tree.map(jnp.zeros_like, weights)
        first = (jnp.float32(0), statistics, zeros, key)
        pieces = {name: value.reshape(count, -1, *value.shape[1:]) for name, value in batch.items()}
        if count == 1:
            piece = {name: value[0] for name, value in pieces.items()}
            (loss, statistics, gradients, _), _ = add(first, piece)
            return loss, statistics, gradients
        (loss, statistics, gradients, _), _ = lax.scan(add, first, pieces)
        return loss / count, statistics, jax.tree.map(lambda value: value / count, gradients)

    def _scaled_loss(self, weights, statistics, piece, key, scale):
        scope = Scope(weights, statistics, self.precision.products, self.dropout, key)
        loss = self.loss(self.outputs(partial(self.network, scope), piece), piece)
        is_scaled = self.scales_loss or self.loss_scale != 1
        return loss * scale if is_scaled else loss, (loss, scope.statistics)

    def gradient_exchange(self):
        """Return a `TreeExchange`, which averages arrays with the gradients' shapes and types over the replicas."""
        weights = partial(self._store_weights, dtype=self.precision.weights)
        return TreeExchange(self.runtime, self.replicas, jax.eval_shape(weights, self.state["weights"]))

    def read_loss(self, loss):
        """Return the losses of this process's replicas, a list of floats; `loss` is the array that `train` returned."""
        return [float(value[0]) for value in self.replicas.read(loss)]

    # Evidence for what was in effect.

    def outputs_and_references(self):
        """Return a pair: logits of the canonical batch's first micro-batch as a step computes them, and in plain fp32.

        Both are lists with one NumPy array per head and replica of this process; the replicas of a head are adjacent.
        The fp32 logits come from the master weights, without TF32. The running statistics do not change.
        """
        batch = self.canonical_batch()
        outputs = self._outputs(self.precision, batch)
        with evidence.use_plain_fp32():
            return outputs, self._outputs(PRECISIONS["fp32"], batch)

    def _outputs(self, precision, batch):
        size = self.request.batch_size // self.request.accumulation

        def compute(masters, batch):
            scope = Scope(self._store_weights(masters, precision.weights), {}, precision.products)
            piece = {name: value[:size] for name, value in batch.items()}
            return self.outputs(partial(self.network, scope), piece)

        results = self.replicas.program(compute, (COPIED, SPLIT), SPLIT)(self.state["weights"], batch)
        return [part for result in results for part in self.replicas.read(result)]

    def widen(self, value):
        """Return `value`, a NumPy array of logits from `outputs_and_references`, as a float64 NumPy array."""
        return value.astype(np.float64)

    def observe_settings(self):
        """Return a dict of the settings in effect, as the traced program of a step shows them.

        The keys are `precision`, `compiler`, `layout` and `strategy`. `layout` is None if the model has no
        convolutions, and `strategy` if no gradients are averaged.
        """
        products = list(evidence.find_products(self._traced.jaxpr))
        self.product_types = [operand.aval.dtype for product in products for operand in product.invars]
        tf32 = evidence.allows_tf32(products, self.request.device)
        return {
            "precision": self.name_precision(self.weight_types, tf32),
            "compiler": "none",
            "layout": "+".join(sorted(evidence.name_layouts(products))) or None,
            "strategy": "all_reduce" if self.runtime.syncs_gradients else None,
        }
