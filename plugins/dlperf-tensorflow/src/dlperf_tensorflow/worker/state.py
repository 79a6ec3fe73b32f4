"""State of a TensorFlow replica: parameters, batch norm's running means, the optimizer's moments and count.

The measuring loop reads it outside the window, and the canonical weights are set through it.
"""

from dlperf_sdk.worker.base_trainer import BaseTrainer


class ReplicaState(BaseTrainer):
    """The hooks of a trainer that read and set its state, which `Weights` keeps."""

    def assign(self, name, parameter, values):
        """Set every replica's copy of a parameter to NumPy values in the manifest's layout."""
        self.weights.assign(name, values)

    def read_parameter(self, name, replica):
        """Return one replica's values of a parameter: float32, in the manifest's layout, C order."""
        return self.weights.read(name, replica)

    def running_means(self, replica):
        """Yield the name and the running mean, a NumPy array (channels,), of every batch norm of a replica."""
        for name, variable in self.weights.statistics.items():
            if name.endswith("running_mean"):
                yield name, self.weights.copy_of(variable, replica).numpy()

    def moments(self, replica):
        """Yield the name and the NumPy values of each moment that the optimizer keeps for a replica."""
        for number, variable in enumerate(self.optimizer.moments):
            yield str(number), self.weights.copy_of(variable, replica).numpy()

    def count_updates(self):
        """Return the number of updates that AdamW counted; None for SGD, which has no count."""
        steps = self.optimizer.steps
        return None if steps is None else int(self.weights.copy_of(steps, 0).numpy())
