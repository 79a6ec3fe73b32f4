"""State of a replica: parameters, running means, the optimizer's moments and count, the batch on the device.

The measuring loop reads it outside the window, and the canonical weights are set through it. All variables of a kind
are read or set in one run of the session: for each new set of fetches TensorFlow optimizes the whole graph again.
"""

from dlperf_sdk.worker.base_trainer import BaseTrainer
from dlperf_tensorflow1.worker.weights import initial_value


class ReplicaState(BaseTrainer):
    """The part of TensorFlow 1's trainers that reads and sets the replica's state through its session."""

    def load_canonical_weights(self, parameters):
        """Set all parameters to the canonical weights in one run of the session; see `BaseTrainer`."""
        self._initializers, self._feed = [], {}
        super().load_canonical_weights(parameters)
        self.session.run(self._initializers, self._feed)
        self.session.run(self.exchange.copies)
        self._initializers, self._feed = [], {}

    def assign(self, name, parameter, values):
        """Note the values of a parameter, in the manifest's layout, for `load_canonical_weights`."""
        self._initializers.append(parameter.initializer)
        self._feed[initial_value(parameter)] = self.weights.to_variable(name, values)

    def weights_of(self, replica):
        """Return the `Weights` of one replica of this process, by its index; here there is only one replica."""
        return self.weights

    def optimizer_of(self, replica):
        """Return the `Optimizer` of one replica of this process, by its index; here there is only one replica."""
        return self.optimizer

    def parameters(self, replica):
        """Yield (name, values) for each parameter; see `read_parameter`."""
        weights = self.weights_of(replica)
        values = self.session.run(weights.variables)
        for entry in self.request.parameters:
            yield entry["name"], weights.to_manifest(entry["name"], values.pop(entry["name"]))

    def read_parameter(self, name, replica):
        """Return a parameter's values: a float32 NumPy array in the manifest's layout, C order."""
        return dict(self.parameters(replica))[name]

    def running_means(self, replica):
        """Return (name, running mean) for each batch norm, in the manifest's order.

        A mean is a float32 NumPy array (channels,).
        """
        shifts = [entry["name"] for entry in self.request.parameters if entry["name"].endswith(".bias")]
        names = [name[: -len("bias")] + "running_mean" for name in shifts]
        statistics = self.weights_of(replica).statistics
        means = {name: statistics[name] for name in names if name in statistics}
        return list(self.session.run(means).items()) if means else []

    def moments(self, replica):
        """Yield (name, values) for each of the optimizer's moments; `values` is a NumPy array.

        A name is PARAMETER.NUMBER, with the number of the moment. Values have the layout of TensorFlow's variables.
        """
        for name, moments in self.session.run(self.optimizer_of(replica).moments).items():
            for number, moment in enumerate(moments):
                yield "%s.%d" % (name, number), moment

    def count_updates(self):
        """Return the number of updates that AdamW counted; None for SGD, which has no count."""
        steps = self.optimizer_of(0).steps
        return None if steps is None else int(self.session.run(steps))

    def skipped_steps(self):
        """Return how many steps the loss scale skipped, because a gradient was not finite."""
        return 0 if self.scaler.skipped is None else int(self.session.run(self.scaler.skipped))

    def reset(self):
        """Set the replica's state to that before the first step, while no replica reads or updates shared variables."""
        self.exchange.wait_for_all()
        super().reset()
        self.exchange.wait_for_all()

    def reset_optimizer(self):
        """Set the moments and the count of updates to zero, and the loss scale to its first value."""
        variables = [*self.optimizer.state(), *self.scaler.state()]
        self.session.run([variable.initializer for variable in variables])

    def load_resident_batch(self):
        """Set the variables that the step reads for the empty batch to the canonical batch."""
        batch = self.host_batches()[0]
        feed = {initial_value(self.resident[name]): values for name, values in batch.items()}
        self.session.run([variable.initializer for variable in self.resident.values()], feed)
        if self.label_name is not None:
            self._resident_labels = self.session.run(self.resident[self.label_name])
