"""The variables of a network, with a copy for each replica."""

import numpy as np
import tensorflow as tf

from dlperf_sdk.worker.base_trainer import ManifestError


class Weights:
    """The variables of one or two networks, with TensorFlow's order of axes, made in the scope of a strategy.

    If `dtype` is narrower than float32, the network that is built first gets variables of that type, and the optimizer
    gets float32 master weights. A network that is built second gets the master weights.

    Args:
        parameters: `Request.parameters`: the manifest.
        strategy: The `tf.distribute.Strategy`.
        layout: `NCHW` or `NHWC`.
        dtype: The `tf.DType` of the weights of convolutions, linear layers and embeddings in the first network.
    """

    def __init__(self, parameters, strategy, layout, dtype):
        self.layout = layout
        """Layout of images, as TensorFlow's operations name it: `NCHW` or `NHWC`."""
        self.variables = {}
        """Parameter → the float32 variable that the optimizer updates."""
        self.trained = {}
        """Parameter → the variable that the first network reads: the same one, or a narrower copy."""
        self.statistics = {}
        """Name → the variable of a running statistic."""
        self._axes = {}
        self._strategy, self._dtype = strategy, dtype
        self._shapes = {entry["name"]: entry["shape"] for entry in parameters}

    def __call__(self, name, axes=None, is_wide=False):
        """Return the variable of a parameter, for the network that is being built; make it on the first call.

        Args:
            name: The parameter's name in the manifest.
            axes: For each axis of the variable, the index of the manifest's axis; None for the same axes.
            is_wide: True for float32 in all networks.

        Raises:
            ManifestError: The manifest has no such parameter.
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
        """Return the variable of a running statistic with the name `name`, which all networks share.

        The first call for a name makes the variable with the value `initial`, a tensor (channels,).
        """
        if name in self.statistics:
            return self.statistics[name]
        variable = self.statistics[name] = tf.Variable(initial, trainable=False, name=name)
        return variable

    def assign(self, name, values):
        """Set a parameter, and its narrower variable if there is one, to `values` in every replica of this process.

        `name` is the parameter's name in the manifest. `values` is a NumPy array in the manifest's layout, which is
        cast to each variable's type.

        Raises:
            KeyError: No network has read the parameter.
        """
        axes = self._axes[name]
        for variable in (self.variables[name], self.trained[name]):
            for copy in self._strategy.experimental_local_results(variable):
                copy.assign(
                    (values if axes is None else values.transpose(axes)).astype(copy.dtype.as_numpy_dtype)
                )

    def round_masters(self, place_near):
        """Set the variables that are narrower than float32 to their float32 master weights, rounded.

        `place_near` is a function of a variable that returns the context manager in which the variable is set, such as
        `asynchronous.place_beside`.
        """
        for name, variable in self.trained.items():
            if variable is not self.variables[name]:
                with place_near(variable):
                    variable.assign(tf.cast(self.variables[name], variable.dtype))

    def types(self):
        """Return the set of the `tf.DType` of the weights with two or more axes, as the first network reads them."""
        return {variable.dtype for variable in self.trained.values() if variable.shape.rank > 1}

    def copy_of(self, variable, replica):
        """Return the copy of `variable` that a replica of this process reads: its own, or the only copy.

        `replica` is the replica's index within this process, from 0. With parameter servers, all replicas read the only
        copy.
        """
        copies = self._strategy.experimental_local_results(variable)
        return copies[replica] if len(copies) > 1 else copies[0]

    def read(self, name, replica):
        """Return the values of one replica's parameter: a float32 NumPy array in the manifest's layout, in C order.

        `name` is the parameter's name in the manifest; `replica` is the replica's index within this process, from 0.

        Raises:
            KeyError: No network has read the parameter.
        """
        values = self.copy_of(self.variables[name], replica).numpy()
        axes = self._axes[name]
        return values if axes is None else np.ascontiguousarray(values.transpose(np.argsort(axes)))
