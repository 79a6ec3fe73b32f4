"""State of a OneFlow replica: parameters, batch norm's running means, the optimizer's moments and count.

The measuring loop reads it outside the window, and the canonical weights are set through it.
"""

import numpy as np
import oneflow as flow

from dlperf_oneflow.worker.graphs import to_local
from dlperf_oneflow.worker.optimizers import moments
from dlperf_sdk.worker.base_trainer import BaseTrainer


class ReplicaState(BaseTrainer):
    """The hooks of a trainer that read and set its state. Parameters have the manifest's layout in OneFlow."""

    def assign(self, name, parameter, values):
        """Set this replica's part of a parameter, in place, to NumPy values in the manifest's layout."""
        with flow.no_grad():
            to_local(parameter).copy_(flow.from_numpy(values).to(self.device))

    def read_parameter(self, name, replica):
        """Return a parameter's values: float32, in the manifest's layout, C order."""
        return np.ascontiguousarray(to_local(self.named[name]).detach().numpy())

    def running_means(self, replica):
        """Yield the name and the running mean, a NumPy array (channels,), of every batch norm of a replica."""
        for name, values in self.network.named_buffers():
            if name.endswith("running_mean"):
                yield name, to_local(values).numpy()

    def moments(self, replica):
        """Yield the name and the NumPy values of each moment that the optimizer keeps for a replica.

        The count of updates, which a graph keeps among them and shows as zero, is left out.
        """
        for name, values in moments(self.optimizer, self.graph):
            if not name.startswith("System-"):
                yield name, to_local(values).numpy()

    def count_updates(self):
        """Return the number of updates that the optimizer counted; None for a graph, whose count cannot be read."""
        return self.optimizer._state["step"] if self.graph is None else None
