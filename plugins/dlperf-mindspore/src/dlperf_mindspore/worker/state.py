"""State of a MindSpore replica: parameters, batch norm's running means, the optimizer's moments and count.

The measuring loop reads it outside the window, and the canonical weights are set through it.
"""

import mindspore as ms

from dlperf_sdk.worker.base_trainer import BaseTrainer

_NAMES = {"gamma": "weight", "beta": "bias", "embedding_table": "weight", "moving_mean": "running_mean"}
"""The last part of a parameter's name in MindSpore → in the manifest, where these differ."""


def name_in_manifest(name):
    """Return a name in the manifest for MindSpore's name of a parameter or a running mean: `bn1.gamma` → `bn1.weight`.

    A name whose last part is the same in both is returned unchanged.
    """
    layer, dot, last = name.rpartition(".")
    return layer + dot + _NAMES.get(last, last)


class ReplicaState(BaseTrainer):
    """The part of MindSpore's trainers that reads and sets a replica's state.

    All parameters have the manifest's layout.
    """

    def assign(self, name, parameter, values):
        """Set a parameter to `values` in every replica of this process.

        `name` is the parameter's name in the manifest, and `parameter` the network's parameter. `values` is a float32
        NumPy array in C order, in the manifest's layout: convolutions OIHW, linear layers (out, in).
        """
        parameter.set_data(ms.Tensor(values))

    def read_parameter(self, name, replica):
        """Return the values of one replica's parameter: a float32 NumPy array in the manifest's layout, in C order.

        `name` is the parameter's name in the manifest. `replica` is not used: a process has one replica.
        """
        return self.named[name].asnumpy().copy()  # MindSpore may hand out its own memory

    def running_means(self, replica):
        """Yield (name, running mean) for each batch norm of the replica; nothing if the model has none.

        A name is the layer's in the manifest with `.running_mean` appended. A mean is a float32 NumPy array
        (channels,). `replica` is not used: a process has one replica.
        """
        for name, values in self.network.parameters_and_names():
            if name.endswith("moving_mean"):
                yield name_in_manifest(name), values.asnumpy().copy()

    def moments(self, replica):
        """Yield (name, values) for each of the optimizer's moments; `values` is a NumPy array.

        A name is PARAMETER.MOMENT: the parameter's name in the manifest, and `velocity`, `exp_avg` or `exp_avg_sq`.
        `replica` is not used: a process has one replica.
        """
        for kind, moments in self.optimizer.moments.items():
            for entry, values in zip(self.request.parameters, moments):
                yield "%s.%s" % (entry["name"], kind), values.asnumpy().copy()

    def count_updates(self):
        """Return the number of updates so far that AdamW's bias correction counts; None for SGD, which has no count."""
        return self.optimizer.updates if self.request.optimizer["kind"] == "adamw" else None
