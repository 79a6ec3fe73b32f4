"""The variables of a network, and the tensors by which the network reads them."""

import numpy as np
import tensorflow.compat.v1 as tf

from dlperf_sdk.worker.base_trainer import ManifestError


class Weights:
    """The variables of a network, with TensorFlow's order of axes.

    Args:
        parameters: `Request.parameters`: the manifest.
        layout: `NCHW` or `NHWC`.
        place: Function of a parameter's number in the manifest, from 0, that returns the name of its device.
    """

    def __init__(self, parameters, layout, place):
        self.layout = layout
        """Layout of images, as TensorFlow's operations name it: `NCHW` or `NHWC`."""
        self.variables = {}
        """Parameter → its variable."""
        self.values = {}
        """Parameter → the tensor that reads its variable, once in a step."""
        self.statistics = {}
        """Name → the variable of a running statistic."""
        self.updates = []
        """Operations that update running statistics, of every call of a batch norm."""
        self.scopes = {}
        """Parameter → the scope of the device that holds it."""
        self._axes, self._place = {}, place
        self._entries = {entry["name"]: (number, entry["shape"]) for number, entry in enumerate(parameters)}

    def __call__(self, name, axes=None):
        """Return the tensor of a parameter; the first call makes the variable.

        Args:
            name: The parameter's name in the manifest.
            axes: For each axis of the variable, the index of the manifest's axis; None for the same axes.

        Raises:
            ManifestError: The manifest has no such parameter.
        """
        if name in self.values:
            return self.values[name]
        if name not in self._entries:
            raise ManifestError("the manifest lacks the network's parameter %s" % name)
        shape = self._entries[name][1]
        self._axes[name] = axes
        self.variables[name] = self.make_parameter(
            name, shape if axes is None else [shape[axis] for axis in axes]
        )
        self.values[name] = tf.identity(self.variables[name])
        return self.values[name]

    def statistic(self, name, shape, initial):
        """Return the variable of a running statistic; the first call for a name makes the variable.

        Args:
            name: The statistic's name, such as `bn1.running_mean`.
            shape: The variable's shape.
            initial: Number that all its elements are at first.
        """
        if name not in self.statistics:
            self.statistics[name] = self.make_statistic(name, shape, initial)
        return self.statistics[name]

    def make_parameter(self, name, shape):
        """Return a new variable of zeros for the parameter `name`, with the shape `shape` in TensorFlow's axes.

        It is on the device that holds the parameter; the name of this device is noted in the dict `scopes`.
        """
        self.scopes[name] = self._place(self._entries[name][0])
        with tf.device(self.scopes[name]):
            return make_variable(shape)

    def make_statistic(self, name, shape, initial):
        """Return a new variable for a running statistic.

        `shape` is its shape, and `initial` the number that all its elements are at first. `name` is not used.
        """
        return make_variable(shape, initial)

    def to_variable(self, name, values):
        """Return `values`, an array in the manifest's layout, with the axes of the variable of the parameter `name`.

        The result may be a view.

        Raises:
            KeyError: No network has read the parameter.
        """
        axes = self._axes[name]
        return values if axes is None else values.transpose(axes)

    def to_manifest(self, name, values):
        """Return `values`, an array with the axes of the variable of the parameter `name`, in the manifest's layout.

        Both are NumPy arrays; the result is in C order.

        Raises:
            KeyError: No network has read the parameter.
        """
        axes = self._axes[name]
        return values if axes is None else np.ascontiguousarray(values.transpose(np.argsort(axes)))


def make_variable(shape, initial=0.0, dtype=tf.float32):
    """Return a resource variable in the default graph, all of whose elements are the number `initial` at first.

    `shape` is its shape, and `dtype` its `tf.DType`.
    """
    return tf.Variable(tf.fill(shape, tf.cast(initial, dtype)), trainable=False, use_resource=True)


def initial_value(variable):
    """Return the tensor that the initializer of `variable` assigns; a session that feeds it sets another value."""
    return variable.initializer.inputs[1]
