"""State of a OneFlow replica: parameters, batch norm's running means, the optimizer's moments and count.

The measuring loop reads it outside the window, and the canonical weights are set through it.
"""

import numpy as np
import oneflow as flow

from dlperf_oneflow.worker.graphs import to_local
from dlperf_oneflow.worker.optimizers import moments
from dlperf_sdk.worker.base_trainer import BaseTrainer


class ReplicaState(BaseTrainer):
    """The part of OneFlow's trainers that reads and sets a replica's state. Parameters have the manifest's layout."""

    def assign(self, name, parameter, values):
        """Set a parameter to `values` in every replica of this process.

        `name` is the parameter's name in the manifest, and `parameter` the network's parameter. `values` is a float32
        NumPy array in C order, in the manifest's layout: convolutions OIHW, linear layers (out, in).
        """
        with flow.no_grad():
            to_local(parameter).copy_(flow.from_numpy(values).to(self.device))

    def read_parameter(self, name, replica):
        """Return the values of one replica's parameter: a float32 NumPy array in the manifest's layout, in C order.

        `name` is the parameter's name in the manifest. `replica` is not used: a process has one replica.
        """
        return np.ascontiguousarray(to_local(self.named[name]).detach().numpy())

    def running_means(self, replica):
        """Yield (name, running mean) for each batch norm of the replica; nothing if the model has none.

        A name is the layer's in the manifest with `.running_mean` appended. A mean is a float32 NumPy array
        (channels,). `replica` is not used: a process has one replica.
        """
        for name, values in self.network.named_buffers():
            if name.endswith("running_mean"):
                yield name, to_local(values).numpy()

    def moments(self, replica):
        """Yield (name, values) for each of the optimizer's moments; `values` is a NumPy array.

        A name is NUMBER.MOMENT: the number of the parameter in the optimizer, from 0, and OneFlow's name of the moment.
        With the compiler `graph`, names are those of the graph, in OneFlow's form. The graph's count of updates is left
        out: OneFlow keeps it among the moments, but it reads as zero. `replica` is not used: a process has one replica.
        """
        for name, values in moments(self.optimizer, self.graph):
            if not name.startswith("System-"):
                yield name, to_local(values).numpy()

    def count_updates(self):
        """Return the number of updates that the optimizer has counted; None for a graph, whose count cannot be read."""
        return self.optimizer._state["step"] if self.graph is None else None
