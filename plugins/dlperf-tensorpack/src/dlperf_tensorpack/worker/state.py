"""State of the replicas of a process: each tower's variables, and the optimizer's moments."""

from dlperf_tensorflow1.worker.training import TensorFlow1Trainer


class TowerState(TensorFlow1Trainer):
    """The part of tensorpack's trainers that reads and sets the state of each tower's replica."""

    def weights_of(self, replica):
        """Return the `Weights` of a replica's tower; `replica` is the replica's index within this process, from 0."""
        return self.towers[replica].weights

    def assign(self, name, parameter, values):
        """Note a parameter's values, which `load_canonical_weights` then sets in all towers; this sets nothing.

        `name` is the parameter's name in the manifest. `parameter` is a list of its variables: one for each tower, or a
        single one that all towers share. `values` is a float32 NumPy array in the manifest's layout: convolutions OIHW,
        linear layers (out, in).
        """
        for variable in parameter:
            super().assign(name, variable, values)

    def optimizer_of(self, replica):
        """Return the `Optimizer` of a replica's variables, which all towers may share.

        `replica` is the replica's index within this process, from 0.
        """
        optimizers = self.optimizer.of_variables
        return optimizers[replica] if len(optimizers) > 1 else optimizers[0]

    def reset_optimizer(self):
        """Set all moments and counts of updates to zero, in all towers."""
        variables = [v for optimizer in self.optimizer.of_variables for v in optimizer.state()]
        self.session.run([variable.initializer for variable in variables])
