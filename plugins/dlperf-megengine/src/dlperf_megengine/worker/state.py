"""State of a MegEngine replica: parameters, batch norm's running means, the optimizer's moments and count.

The measuring loop reads it outside the window, and the canonical weights are set through it.
"""

import numpy as np

from dlperf_sdk.worker.base_trainer import BaseTrainer


class ReplicaState(BaseTrainer):
    """The part of MegEngine's trainers that reads and sets a replica's state.

    Batch norm's parameters are (1, channels, 1, 1) in MegEngine, and (channels,) in the manifest; other parameters
    have the manifest's layout.
    """

    def assign(self, name, parameter, values):
        """Set a parameter to `values` in every replica of this process.

        `name` is the parameter's name in the manifest, and `parameter` the network's parameter. `values` is a float32
        NumPy array in C order, in the manifest's layout: convolutions OIHW, linear layers (out, in).
        """
        parameter[...] = values.reshape(parameter.shape)

    def read_parameter(self, name, replica):
        """Return the values of one replica's parameter: a float32 NumPy array in the manifest's layout, in C order.

        `name` is the parameter's name in the manifest. `replica` is not used: a process has one replica.
        """
        values = self.named[name].numpy()
        if values.ndim == 4 and values.shape[::2] == (1, 1):
            values = values.reshape(-1)
        return np.ascontiguousarray(values)

    def running_means(self, replica):
        """Yield (name, running mean) for each batch norm of the replica; nothing if the model has none.

        A name is the layer's in the manifest with `.running_mean` appended. A mean is a float32 NumPy array
        (channels,). `replica` is not used: a process has one replica.
        """
        for name, values in self.network.named_buffers():
            if name.endswith("running_mean"):
                yield name, values.numpy().reshape(-1)

    def moments(self, replica):
        """Yield (name, values) for each of the optimizer's moments; `values` is a NumPy array.

        A name is PARAMETER.MOMENT: the parameter's name in the manifest, and MegEngine's name of the moment. `replica`
        is not used: a process has one replica.
        """
        for name, parameter in self.named.items():
            for kind, values in self.optimizer._state[parameter].items():
                if kind != "step":
                    yield "%s.%s" % (name, kind), values.numpy()

    def count_updates(self):
        """Return the number of updates that AdamW has counted for the first parameter; None for SGD."""
        step = self.optimizer._state[next(iter(self.named.values()))].get("step")
        return None if step is None else int(step.item())
