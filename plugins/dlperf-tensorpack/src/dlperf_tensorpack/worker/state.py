"""State of the replicas of a process: each tower's variables, and the optimizer's moments."""

import itertools

from dlperf_tensorflow1.worker.training import TensorFlow1Trainer


class TowerState(TensorFlow1Trainer):
    """The part of tensorpack's trainers that reads and sets the state of each tower's replica."""

    def weights_of(self, replica):
        """Return the `Weights` of the replica's tower."""
        return self.towers[replica].weights

    def assign(self, name, parameter, values):
        """Note the values of a parameter, in the manifest's layout, for `load_canonical_weights`.

        `parameter` has one variable for each tower, or a single one that all towers share.
        """
        for variable in parameter:
            super().assign(name, variable, values)

    def moments(self, replica):
        """Yield (name, values) for each of the optimizer's moments; `values` is a NumPy array."""
        variables = self.weights_of(replica).variables
        moments = {name: self.optimizer.get_slot(v, "momentum") for name, v in variables.items()}
        for name, moment in self.session.run(moments).items():
            yield name + ".0", moment

    def count_updates(self):
        """Return None: SGD counts no updates."""

    def reset_optimizer(self):
        """Set the moments to zero."""
        variables = itertools.chain(*self.assigned.values())
        self.session.run([self.optimizer.get_slot(v, "momentum").initializer for v in variables])
