"""State of a Paddle replica: parameters, batch norm's running means, the optimizer's moments and count.

The measuring loop reads it outside the window, and the canonical weights are set through it.
"""

import numpy as np

from dlperf_sdk.worker.base_trainer import BaseTrainer


class ReplicaState(BaseTrainer):
    """The hooks of a trainer that read and set its state. Linear layers' weights are transposed in Paddle."""

    def assign(self, name, parameter, values):
        """Set a parameter, in place, to NumPy values in the manifest's layout."""
        parameter.set_value(values.T if name in self._transposed else values)

    def read_parameter(self, name, replica):
        """Return a parameter as a NumPy array: float32, in the manifest's layout, C order. There is one `replica`."""
        values = self.named[name].numpy()
        return np.ascontiguousarray(values.T if name in self._transposed else values)

    def running_means(self, replica):
        """Yield the name and the running mean, a NumPy array (channels,), of every batch norm of a replica."""
        for name, values in self.network.named_parameters():
            if name.endswith("._mean"):
                yield name[: -len("_mean")] + "running_mean", values.numpy()

    def moments(self, replica):
        """Yield the name and the NumPy values of each moment that the optimizer keeps for a replica."""
        for kind, values in self.optimizer._accumulators.items():
            if not kind.endswith("_pow_acc"):
                for name, parameter in self.named.items():
                    yield "%s.%s" % (name, kind), values[parameter.name].numpy()
