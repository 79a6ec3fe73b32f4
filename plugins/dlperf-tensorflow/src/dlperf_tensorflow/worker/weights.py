"""The variables of a network: each with the canonical values in every replica's copy."""

import numpy as np
import tensorflow as tf

from dlperf_sdk.worker import canonical


class Weights:
    """Makes a network's variables, each with the canonical values in every replica's copy."""

    def __init__(self, request, strategy):
        self.layout = "NCHW" if request.layout == "nchw" else "NHWC"
        """Of images, as TensorFlow's operations call it."""
        self.variables = {}
        self.statistics = {}
        self._axes = {}
        self._strategy, self._seed = strategy, request.seed
        self._entries = {entry["name"]: entry for entry in request.parameters}

    def __call__(self, name, axes=None):
        """The variable of a parameter of the manifest, its axes in the order `axes` of the manifest's."""
        ((_, values),) = canonical.weights([self._entries.pop(name)], self._seed)
        values = values if axes is None else values.transpose(axes)
        # Every replica sets its own copy: with several workers, the first one's initial value goes to all.
        variable = self.variables[name] = tf.Variable(tf.zeros(values.shape), name=name)
        for copy in self._strategy.experimental_local_results(variable):
            copy.assign(values)
        self._axes[name] = axes
        return variable

    def statistic(self, name, initial):
        """A variable that is not trained."""
        variable = self.statistics[name] = tf.Variable(initial, trainable=False, name=name)
        return variable

    def complete(self, model):
        """Raises ValueError where the network has not asked for everything."""
        if self._entries:
            raise ValueError("the network of %s lacks %s" % (model, ", ".join(sorted(self._entries))))

    def copy_of(self, variable, replica):
        """The copy that a replica of this process reads: its own, or the parameter servers' only one."""
        copies = self._strategy.experimental_local_results(variable)
        return copies[replica] if len(copies) > 1 else copies[0]

    def in_manifests_layout(self, name, replica):
        """A replica's values of a parameter as the manifest lays them out: float32, C order."""
        values = self.copy_of(self.variables[name], replica).numpy()
        axes = self._axes[name]
        return values if axes is None else np.ascontiguousarray(values.transpose(np.argsort(axes)))
