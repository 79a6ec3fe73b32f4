"""State of JAX's replicas: parameters, batch norm's statistics, the optimizer's moments and count, dropout's keys.

The measuring loop reads it outside the window, and the canonical weights are set through it.
"""

from functools import partial

import jax
import numpy as np

from dlperf_jax.worker.replicas import COPIED, SPLIT
from dlperf_jax.worker.scope import Scope
from dlperf_sdk.worker.base_trainer import BaseTrainer

STATE = {"weights": COPIED, "optimizer": COPIED, "scale": COPIED, "statistics": SPLIT, "keys": SPLIT}
"""Part of a trainer's state → how its arrays lie on the replicas."""


class ReplicaState(BaseTrainer):
    """The part of JAX's trainers that reads and sets the replicas' state.

    Convolutions' weights are HWIO in JAX, and OIHW in the manifest; other parameters have the manifest's layout.
    """

    def assign(self, name, parameter, values):
        """Set a parameter to `values` in every replica of this process.

        `name` is the parameter's name in the manifest; `parameter` is not used. `values` is a float32 NumPy array in C
        order, in the manifest's layout: convolutions OIHW, linear layers (out, in).
        """
        values = values.transpose(2, 3, 1, 0) if values.ndim == 4 else values
        self.state["weights"][name] = self._place(values, COPIED)

    def read_parameter(self, name, replica):
        """Return the values of one replica's parameter: a float32 NumPy array in the manifest's layout, in C order.

        `name` is the parameter's name in the manifest; `replica` is the replica's index within this process, from 0.
        """
        values = self.replicas.read(self.state["weights"][name])[replica]
        return np.ascontiguousarray(values.transpose(3, 2, 0, 1)) if values.ndim == 4 else values

    def running_means(self, replica):
        """Yield (name, running mean) for each batch norm of a replica; nothing if the model has none.

        A name is the layer's in the manifest with `.running_mean` appended. A mean is a float32 NumPy array
        (channels,). `replica` is the replica's index within this process, from 0.
        """
        for name, value in self.state["statistics"].items():
            if name.endswith("running_mean"):
                yield name, self.replicas.read(value)[replica]

    def moments(self, replica):
        """Yield (name, values) for each of the optimizer's moments of a replica; `values` is a NumPy array.

        A name is the moment's path in the state of optax, such as `[1].trace['fc.weight']`. Values have the layout of
        this plugin's parameters: kernels are HWIO. `replica` is the replica's index within this process, from 0.
        """
        for path, value in jax.tree_util.tree_leaves_with_path(self.state["optimizer"]):
            if value.ndim:
                yield jax.tree_util.keystr(path), self.replicas.read(value)[replica]

    def count_updates(self):
        """Return the number of updates that AdamW has counted; None for SGD, which has no count."""
        counts = [value for value in jax.tree.leaves(self.state["optimizer"]) if not value.ndim]
        return min((int(self.replicas.read(count)[0]) for count in counts), default=None)

    def skipped_steps(self):
        """Return the number of steps so far whose update the loss scaler skipped because a gradient was not finite."""
        return int(self.replicas.read(self.state["scale"]["skipped"])[0])

    def _trace_network(self):
        """Return the names of the parameters that the network reads, and its running statistics' first values."""
        scopes = []

        def trace(weights, batch):
            scopes.append(Scope(weights, {}, self.precision.products))
            self.outputs(partial(self.network, scopes[0]), batch)
            return scopes[0].statistics

        shapes = {
            entry["name"]: jax.ShapeDtypeStruct(_turn_shape(entry["shape"]), np.float32)
            for entry in self.request.parameters
        }
        statistics = jax.eval_shape(trace, shapes, self.host_batches()[0])
        first = {name: float(name.endswith("running_var")) for name in statistics}
        return scopes[0].names, {
            name: np.full(value.shape, first[name], np.float32) for name, value in statistics.items()
        }

    def reset_optimizer(self):
        """Set moments, counts, loss scale and dropout keys of all replicas to their values before the first step.

        Moments and counts become zero. A replica's dropout key is made from the request's seed plus the replica's
        global index.
        """
        shapes = jax.eval_shape(self.optimizer.init, self.state["weights"])
        moments = jax.tree.map(lambda value: np.zeros(value.shape, value.dtype), shapes)
        seeds = [self.request.seed + replica for replica in self.process.replicas]
        self.state.update(
            optimizer=self._copy_to_replicas(moments),
            scale=self._copy_to_replicas(self.scaler.initial_state()),
            keys=self.replicas.place([np.asarray(jax.random.PRNGKey(seed))[None] for seed in seeds], SPLIT),
        )

    def _store_weights(self, masters, dtype):
        """Return the weights that the network reads, rounded to this type; batch norm's stay float32."""
        norms = {name.rpartition(".")[0] for name in self.state["statistics"]}
        return {
            name: value if name.rpartition(".")[0] in norms else value.astype(dtype)
            for name, value in masters.items()
        }

    def _place(self, value, spec):
        return self.replicas.place([value] * len(self.replicas.local_devices), spec)

    def _copy_to_replicas(self, tree):
        return jax.tree.map(lambda value: self._place(value, COPIED), tree)


def _turn_shape(shape):
    """Return the axes of a kernel as HWIO, others as they are."""
    return tuple(shape[axis] for axis in (2, 3, 1, 0)) if len(shape) == 4 else tuple(shape)
