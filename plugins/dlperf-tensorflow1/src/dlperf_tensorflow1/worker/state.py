"""State of a replica: parameters, running means, the optimizer's moments and count, the batch on the device.

The measuring loop reads it outside the window, and the canonical weights are set through it. All variables of a kind
are read or set in one run of the session: for each new set of fetches TensorFlow optimizes the whole graph again.
"""

from dlperf_sdk.worker.base_trainer import BaseTrainer
from dlperf_tensorflow1.worker.weights import initial_value


class ReplicaState(BaseTrainer):
    """The part of TensorFlow 1's trainers that reads and sets the replica's state through its session."""

    def load_canonical_weights(self, parameters):
        """Set all parameters of every replica of this process to the canonical weights, in one run of the session.

        `parameters` is a dict: a name in the manifest → the `parameter` that the method `assign` takes.

        Raises:
            ManifestError: The network and the manifest have different parameters.
            ValueError: The manifest has an unknown kind of `init`.
        """
        self._initializers, self._feed = [], {}
        super().load_canonical_weights(parameters)
        self.session.run(self._initializers, self._feed)
        self.session.run(self.exchange.copies)
        self._initializers, self._feed = [], {}

    def assign(self, name, parameter, values):
        """Note a parameter's values, which `load_canonical_weights` then sets; this sets nothing.

        `name` is the parameter's name in the manifest, and `parameter` its variable. `values` is a float32 NumPy array
        in the manifest's layout: convolutions OIHW, linear layers (out, in).
        """
        self._initializers.append(parameter.initializer)
        self._feed[initial_value(parameter)] = self.weights.to_variable(name, values)

    def weights_of(self, replica):
        """Return the `Weights` of a replica; `replica` is not used: a process has one replica."""
        return self.weights

    def optimizer_of(self, replica):
        """Return the `Optimizer` of a replica; `replica` is not used: a process has one replica."""
        return self.optimizer

    def parameters(self, replica):
        """Yield (name, values) for each parameter of a replica, in the manifest's order.

        Values are float32 NumPy arrays in C order, in the manifest's layout: convolutions OIHW, linear layers (out,
        in). They are all read in one run of the session. `replica` is the replica's index within this process, from 0.
        """
        weights = self.weights_of(replica)
        values = self.session.run(weights.variables)
        for entry in self.request.parameters:
            yield entry["name"], weights.to_manifest(entry["name"], values.pop(entry["name"]))

    def read_parameter(self, name, replica):
        """Return the values of one replica's parameter: a float32 NumPy array in the manifest's layout, in C order.

        `name` is the parameter's name in the manifest; `replica` is the replica's index within this process, from 0.
        """
        return dict(self.parameters(replica))[name]

    def running_means(self, replica):
        """Return a list of (name, running mean) for each batch norm of a replica; empty if the model has none.

        A name is the layer's in the manifest with `.running_mean` appended. A mean is a float32 NumPy array
        (channels,). `replica` is the replica's index within this process, from 0.
        """
        shifts = [entry["name"] for entry in self.request.parameters if entry["name"].endswith(".bias")]
        names = [name[: -len("bias")] + "running_mean" for name in shifts]
        statistics = self.weights_of(replica).statistics
        means = {name: statistics[name] for name in names if name in statistics}
        return list(self.session.run(means).items()) if means else []

    def moments(self, replica):
        """Yield (name, values) for each of the optimizer's moments of a replica; `values` is a NumPy array.

        A name is PARAMETER.NUMBER: the parameter's name in the manifest, and the number of the moment, from 0. Values
        have the layout of TensorFlow's variables. `replica` is the replica's index within this process, from 0.
        """
        for name, moments in self.session.run(self.optimizer_of(replica).moments).items():
            for number, moment in enumerate(moments):
                yield "%s.%d" % (name, number), moment

    def count_updates(self):
        """Return the number of updates that AdamW has counted; None for SGD, which has no count."""
        steps = self.optimizer_of(0).steps
        return None if steps is None else int(self.session.run(steps))

    def skipped_steps(self):
        """Return the number of updates that the loss scaler skipped so far because a gradient was not finite."""
        return 0 if self.scaler.skipped is None else int(self.session.run(self.scaler.skipped))

    def reset(self):
        """Set the weights, the optimizer and the learning rate schedule to those before the first step.

        If replicas share variables, wait until all have called this, both before the reset and after it.
        """
        self.exchange.wait_for_all()
        super().reset()
        self.exchange.wait_for_all()

    def reset_optimizer(self):
        """Set the moments and the count of updates to zero, and the loss scale to its first value."""
        variables = [*self.optimizer.state(), *self.scaler.state()]
        self.session.run([variable.initializer for variable in variables])

    def load_resident_batch(self):
        """Set the variables on the device, which a step reads if its batch is an empty dict, to the canonical batch."""
        batch = self.host_batches()[0]
        feed = {initial_value(self.resident[name]): values for name, values in batch.items()}
        self.session.run([variable.initializer for variable in self.resident.values()], feed)
        if self.label_name is not None:
            self._resident_labels = self.session.run(self.resident[self.label_name])
