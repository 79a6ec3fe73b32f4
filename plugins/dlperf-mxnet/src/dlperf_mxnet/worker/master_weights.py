"""The float32 weights that the optimizer updates, if the network's own are narrower."""

import mxnet as mx
import numpy as np
from mxnet import gluon


class MasterWeights:
    """A network's parameters in float32, which the optimizer updates.

    If the network holds a parameter in a narrower type, the float32 weights are a separate parameter on the same
    devices. Its values are zero at first: the caller sets them, and then calls `round_into_network`. All other
    parameters are the network's own.

    Args:
        parameters: Dict: a parameter's name in the manifest → gluon's initialized parameter of the network.
    """

    def __init__(self, parameters):
        self.named = dict(parameters)
        """Parameter's name → the float32 parameter that the optimizer updates."""
        self._pairs = []
        for name, narrow in parameters.items():
            if np.dtype(narrow.dtype) != np.float32:
                master = self.named[name] = gluon.Parameter(name, shape=narrow.shape, init="zeros")
                master.initialize(ctx=narrow.list_ctx())
                self._pairs.append((master, narrow))

    def receive_gradients(self):
        """Copy the gradients of all network parameters narrower than float32 to their float32 parameters."""
        for master, narrow in self._pairs:
            for wide, gradient in zip(master.list_grad(), narrow.list_grad()):
                mx.nd.cast(gradient, dtype="float32", out=wide)
            for values in master.list_data():
                values._fresh_grad = True  # gluon's Trainer updates no other parameter

    def round_into_network(self):
        """Set all network parameters narrower than float32 to their float32 parameters, rounded to their own types."""
        for master, narrow in self._pairs:
            for values, rounded in zip(master.list_data(), narrow.list_data()):
                mx.nd.cast(values, dtype=narrow.dtype, out=rounded)


def to_float32(outputs):
    """Return a list of the MXNet arrays in `outputs`, those of float16 converted to float32, all others unchanged."""
    return [value.astype("float32") if value.dtype == np.float16 else value for value in outputs]
