"""The variables of a network, with a copy for every replica."""

import numpy as np
import tensorflow as tf

from dlperf_sdk.worker.base_trainer import ManifestError


class Weights:
    """Makes a network's variables, with the axes that TensorFlow wants and a copy in every replica.

    Where `dtype` is narrower than float32, the first network gets variables of that type, and float32 master weights
    are kept for the optimizer; a second network gets the master weights.
    """

    def __init__(self, parameters, strategy, layout, dtype):
        self.layout = layout
        """Of images, as TensorFlow's operations call it: NCHW or NHWC."""
        self.variables = {}
        """Parameter → its float32 variable, which the optimizer updates."""
        self.trained = {}
        """Parameter → the variable that the first network reads: the same, or a narrower copy."""
        self.statistics = {}
        self._axes = {}
        self._strategy, self._dtype = strategy, dtype
        self._shapes = {entry["name"]: entry["shape"] for entry in parameters}

    def __call__(self, name, axes=None, is_wide=False):
        """Return the variable of a parameter of the manifest, its axes in the order `axes` of the manifest's.

        One that `is_wide` is float32 in all networks.
        """
        if name in self.variables:
            return self.variables[name]
        if name not in self._shapes:
            raise ManifestError("the manifest lacks the network's parameter %s" % name)
        shape, self._axes[name] = self._shapes[name], axes
        shape = shape if axes is None else [shape[axis] for axis in axes]
        variable = self.variables[name] = self.trained[name] = tf.Variable(tf.zeros(shape), name=name)
        if self._dtype != tf.float32 and not is_wide:
            variable = self.trained[name] = tf.Variable(tf.zeros(shape, self._dtype), name=name + ".narrow")
        return variable

    def statistic(self, name, initial):
        """Return a variable of the initial value that is not trained; every network that asks for a name shares it."""
        if name in self.statistics:
            return self.statistics[name]
        variable = self.statistics[name] = tf.Variable(initial, trainable=False, name=name)
        return variable

    def assign(self, name, values):
        """Set every replica's copy of a parameter to values in the manifest's layout.

        With several workers, all copies take the initial value of the first worker.
        """
        axes = self._axes[name]
        for variable in (self.variables[name], self.trained[name]):
            for copy in self._strategy.experimental_local_results(variable):
                copy.assign(
                    (values if axes is None else values.transpose(axes)).astype(copy.dtype.as_numpy_dtype)
                )

    def round_masters(self, place_near):
        """Set the narrow variables to their master weights, rounded.

        `place_near(variable)` returns the device scope for that.
        """
        for name, variable in self.trained.items():
            if variable is not self.variables[name]:
                with place_near(variable):
                    variable.assign(tf.cast(self.variables[name], variable.dtype))

    def types(self):
        """Return the data types of the weights of convolutions, linear layers and embeddings in the network."""
        return {variable.dtype for variable in self.trained.values() if variable.shape.rank > 1}

    def copy_of(self, variable, replica):
        """Return the copy that a replica of this process reads: its own, or the parameter servers' only one."""
        copies = self._strategy.experimental_local_results(variable)
        return copies[replica] if len(copies) > 1 else copies[0]

    def read(self, name, replica):
        """Return a replica's values of a parameter as the manifest lays them out: float32, C order."""
        values = self.copy_of(self.variables[name], replica).numpy()
        axes = self._axes[name]
        return values if axes is None else np.ascontiguousarray(values.transpose(np.argsort(axes)))
