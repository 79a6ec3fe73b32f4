"""State of the replicas of a process: each tower's variables, and the optimizer's moments."""

from dlperf_tensorflow1.worker.training import TensorFlow1Trainer


class TowerState(TensorFlow1Trainer):
    """The part of tensorpack's trainers that reads and sets the state of each tower's replica."""

    def weights_of(self, replica):
        """Return the `Weights` of the tower of a replica; `replica` is its index within this process."""
        return self.towers[replica].weights

    def assign(self, name, parameter, values):
        """Note the values of a parameter, in the manifest's layout, for `load_canonical_weights`.

        `parameter` has one variable for each tower, or a single one that all towers share. `name` is the parameter's
        name in the manifest, and `values` a float32 NumPy array.
        """
        for variable in parameter:
            super().assign(name, variable, values)

    def optimizer_of(self, replica):
        """Return the optimizer of a replica's variables, which all towers may share; `replica` is its index here."""
        optimizers = self.optimizer.of_variables
        return optimizers[replica] if len(optimizers) > 1 else optimizers[0]

    def reset_optimizer(self):
        """Set all moments and counts of updates to zero."""
        variables = [v for optimizer in self.optimizer.of_variables for v in optimizer.state()]
        self.session.run([variable.initializer for variable in variables])
