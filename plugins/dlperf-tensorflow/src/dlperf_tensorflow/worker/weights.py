"""The variables of a network, with a copy for every replica."""

import numpy as np
import tensorflow as tf

from dlperf_sdk.worker.base_trainer import ManifestError


class Weights:
    """Makes a network's variables, with the axes that TensorFlow wants and a copy in every replica."""

    def __init__(self, parameters, strategy, layout):
        self.layout = layout
        """Of images, as TensorFlow's operations call it: NCHW or NHWC."""
        self.variables = {}
        self.statistics = {}
        self._axes = {}
        self._strategy = strategy
        self._shapes = {entry["name"]: entry["shape"] for entry in parameters}

    def __call__(self, name, axes=None):
        """Return the variable of a parameter of the manifest, its axes in the order `axes` of the manifest's."""
        if name not in self._shapes:
            raise ManifestError("the manifest lacks the network's parameter %s" % name)
        shape, self._axes[name] = self._shapes[name], axes
        shape = shape if axes is None else [shape[axis] for axis in axes]
        variable = self.variables[name] = tf.Variable(tf.zeros(shape), name=name)
        return variable

    def statistic(self, name, initial):
        """Return a variable that is not trained."""
        variable = self.statistics[name] = tf.Variable(initial, trainable=False, name=name)
        return variable

    def assign(self, name, values):
        """Set every replica's copy: with several workers, the first one's initial value goes to all."""
        axes = self._axes[name]
        for copy in self._strategy.experimental_local_results(self.variables[name]):
            copy.assign(values if axes is None else values.transpose(axes))

    def copy_of(self, variable, replica):
        """Return the copy that a replica of this process reads: its own, or the parameter servers' only one."""
        copies = self._strategy.experimental_local_results(variable)
        return copies[replica] if len(copies) > 1 else copies[0]

    def read(self, name, replica):
        """Return a replica's values of a parameter as the manifest lays them out: float32, C order."""
        values = self.copy_of(self.variables[name], replica).numpy()
        axes = self._axes[name]
        return values if axes is None else np.ascontiguousarray(values.transpose(np.argsort(axes)))
