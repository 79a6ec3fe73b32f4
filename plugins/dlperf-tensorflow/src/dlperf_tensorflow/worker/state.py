"""State of a TensorFlow replica: parameters, batch norm's running means, the optimizer's moments and count.

The measuring loop reads it outside the window, and the canonical weights are set through it.
"""

from dlperf_sdk.worker.base_trainer import BaseTrainer


class ReplicaState(BaseTrainer):
    """The hooks of a trainer that read and set its state, which `Weights` keeps."""

    def assign(self, name, parameter, values):
        """Set every replica's copy."""
        self.weights.assign(name, values)

    def read_parameter(self, name, replica):
        """Return a replica's values of a parameter."""
        return self.weights.read(name, replica)

    def running_means(self, replica):
        """Yield the running mean of every batch norm."""
        for name, variable in self.weights.statistics.items():
            if name.endswith("running_mean"):
                yield name, self.weights.copy_of(variable, replica).numpy()

    def moments(self, replica):
        """Yield the optimizer's moments."""
        for number, variable in enumerate(self.optimizer.moments):
            yield str(number), self.weights.copy_of(variable, replica).numpy()

    def count_updates(self):
        """Return AdamW's count; SGD has none."""
        steps = self.optimizer.steps
        return None if steps is None else int(self.weights.copy_of(steps, 0).numpy())
