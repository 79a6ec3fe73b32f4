"""State of a torch replica: parameters, batch norm's running means, the optimizer's moments and count.

The measuring loop reads it outside the window, and the canonical weights are set through it.
"""

import torch

from dlperf_sdk.worker.base_trainer import BaseTrainer


class ReplicaState(BaseTrainer):
    """The hooks of a trainer that read and set its state. Parameters have the manifest's layout in torch."""

    def assign(self, name, parameter, values):
        """Set a parameter, in place, to NumPy values in the manifest's layout."""
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(values))

    def read_parameter(self, name, replica):
        """Return a parameter's values: float32, in the manifest's layout, C order."""
        return self.named[name].detach().to("cpu", torch.float32).contiguous().numpy()

    def running_means(self, replica):
        """Yield the name and the running mean, a NumPy array (channels,), of every batch norm of a replica."""
        for name, values in self.network.named_buffers():
            if name.endswith("running_mean"):
                yield name, values.cpu().numpy()

    def moments(self, replica):
        """Yield the name and the NumPy values of each moment that the optimizer keeps for a replica."""
        for name, parameter in self.named.items():
            for kind, values in self.optimizer.state.get(parameter, {}).items():
                if kind != "step":
                    yield "%s.%s" % (name, kind), values.to("cpu", torch.float32).contiguous().numpy()

    def count_updates(self):
        """Return the number of updates that AdamW counted; None for SGD, which has no count."""
        counts = [int(state["step"]) for state in self.optimizer.state.values() if "step" in state]
        return min(counts, default=None)
