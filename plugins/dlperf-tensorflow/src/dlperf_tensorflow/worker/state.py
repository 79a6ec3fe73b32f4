"""State of a TensorFlow replica: parameters, batch norm's running means, the optimizer's moments and count.

The measuring loop reads it outside the window, and the canonical weights are set through it.
"""

from dlperf_sdk.worker.base_trainer import BaseTrainer


class ReplicaState(BaseTrainer):
    """The part of TensorFlow's trainers that reads and sets the replicas' state, which `Weights` keeps."""

    def assign(self, name, parameter, values):
        """Set a parameter to `values` in every replica of this process.

        `name` is the parameter's name in the manifest; `parameter` is not used. `values` is a float32 NumPy array in C
        order, in the manifest's layout: convolutions OIHW, linear layers (out, in).
        """
        self.weights.assign(name, values)

    def read_parameter(self, name, replica):
        """Return the values of one replica's parameter: a float32 NumPy array in the manifest's layout, in C order.

        `name` is the parameter's name in the manifest; `replica` is the replica's index within this process, from 0.
        """
        return self.weights.read(name, replica)

    def running_means(self, replica):
        """Yield (name, running mean) for each batch norm of a replica; nothing if the model has none.

        A name is the layer's in the manifest with `.running_mean` appended. A mean is a float32 NumPy array
        (channels,). `replica` is the replica's index within this process, from 0.
        """
        for name, variable in self.weights.statistics.items():
            if name.endswith("running_mean"):
                yield name, self.weights.copy_of(variable, replica).numpy()

    def moments(self, replica):
        """Yield (name, values) for each of the optimizer's moments of a replica; `values` is a NumPy array.

        A name is the number of the moment in the optimizer, from 0, as text. Values have the layout of TensorFlow's
        parameters. `replica` is the replica's index within this process, from 0.
        """
        for number, variable in enumerate(self.optimizer.moments):
            yield str(number), self.weights.copy_of(variable, replica).numpy()

    def count_updates(self):
        """Return the number of updates that AdamW has counted; None for SGD, which has no count."""
        steps = self.optimizer.steps
        return None if steps is None else int(self.weights.copy_of(steps, 0).numpy())
