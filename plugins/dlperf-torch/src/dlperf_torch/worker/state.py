"""State of a torch replica: parameters, batch norm's running means, the optimizer's moments and count.

The measuring loop reads it outside the window, and the canonical weights are set through it.
"""

import torch

from dlperf_sdk.worker.base_trainer import BaseTrainer


class ReplicaState(BaseTrainer):
    """The part of torch's trainers that reads and sets a replica's state. Parameters have the manifest's layout."""

    def assign(self, name, parameter, values):
        """Set a parameter to `values` in every replica of this process.

        `name` is the parameter's name in the manifest, and `parameter` its tensor in the network. `values` is a float32
        NumPy array in C order, in the manifest's layout: convolutions OIHW, linear layers (out, in).
        """
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(values))

    def read_parameter(self, name, replica):
        """Return the values of one replica's parameter: a float32 NumPy array in the manifest's layout, in C order.

        `name` is the parameter's name in the manifest. `replica` is not used: a process has one replica.
        """
        return self.named[name].detach().to("cpu", torch.float32).contiguous().numpy()

    def running_means(self, replica):
        """Yield (name, running mean) for each batch norm of the replica; nothing if the model has none.

        A name is the layer's in the manifest with `.running_mean` appended, such as `bn1.running_mean`. A mean is a
        float32 NumPy array (channels,). `replica` is not used: a process has one replica.
        """
        for name, values in self.network.named_buffers():
            if name.endswith("running_mean"):
                yield name, values.cpu().numpy()

    def moments(self, replica):
        """Yield (name, values) for each of the optimizer's moments; `values` is a float32 NumPy array.

        A name is PARAMETER.MOMENT, such as `fc.weight.momentum_buffer`. Values have the layout of torch's parameters.
        AdamW has no moments before the first step, so that nothing is yielded then. `replica` is not used: a process
        has one replica.
        """
        for name, parameter in self.named.items():
            for kind, values in self.optimizer.state.get(parameter, {}).items():
                if kind != "step":
                    yield "%s.%s" % (name, kind), values.to("cpu", torch.float32).contiguous().numpy()

    def count_updates(self):
        """Return the number of updates that AdamW has counted; None for SGD, and before the first step."""
        counts = [int(state["step"]) for state in self.optimizer.state.values() if "step" in state]
        return min(counts, default=None)
