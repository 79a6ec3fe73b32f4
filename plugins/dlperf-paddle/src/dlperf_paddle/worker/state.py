"""State of a Paddle replica: parameters, batch norm's running means, the optimizer's moments and count.

The measuring loop reads it outside the window, and the canonical weights are set through it.
"""

import numpy as np

from dlperf_sdk.worker.base_trainer import BaseTrainer


class ReplicaState(BaseTrainer):
    """The part of Paddle's trainers that reads and sets a replica's state.

    Linear layers' weights are (in, out) in Paddle, and (out, in) in the manifest; other parameters have the
    manifest's layout.
    """

    def assign(self, name, parameter, values):
        """Set a parameter to `values` in every replica of this process.

        `name` is the parameter's name in the manifest, and `parameter` the network's parameter. `values` is a float32
        NumPy array in C order, in the manifest's layout: convolutions OIHW, linear layers (out, in).
        """
        parameter.set_value(values.T if name in self._transposed else values)

    def read_parameter(self, name, replica):
        """Return the values of one replica's parameter: a float32 NumPy array in the manifest's layout, in C order.

        `name` is the parameter's name in the manifest. `replica` is not used: a process has one replica.
        """
        values = self.named[name].numpy()
        return np.ascontiguousarray(values.T if name in self._transposed else values)

    def running_means(self, replica):
        """Yield (name, running mean) for each batch norm of the replica; nothing if the model has none.

        A name is the layer's in the manifest with `.running_mean` appended. A mean is a float32 NumPy array
        (channels,). `replica` is not used: a process has one replica.
        """
        for name, values in self.network.named_parameters():
            if name.endswith("._mean"):
                yield name[: -len("_mean")] + "running_mean", values.numpy()

    def moments(self, replica):
        """Yield (name, values) for each of the optimizer's moments; `values` is a NumPy array.

        A name is PARAMETER.MOMENT: the parameter's name in the manifest, and Paddle's name of the moment. Values have
        the layout of Paddle's parameters: linear layers are (in, out). `replica` is not used: a process has one
        replica.
        """
        for kind, values in self.optimizer._accumulators.items():
            if not kind.endswith("_pow_acc"):
                for name, parameter in self.named.items():
                    yield "%s.%s" % (name, kind), values[parameter.name].numpy()
