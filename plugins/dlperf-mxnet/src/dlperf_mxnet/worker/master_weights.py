"""The float32 weights that the optimizer updates, if the network's own are narrower."""

import mxnet as mx
import numpy as np
from mxnet import gluon


class MasterWeights:
    """A network's parameters in float32, which the optimizer updates.

    For a parameter that the network holds in a narrower type it is a parameter of its own, on the same devices. Its
    values are zero until they are set, after which `round_into_network` must follow. All others are the network's own.

    Args:
        parameters: gluon's parameters of the network, initialized, by the manifest's names.
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
        """Copy the gradients of the network's narrower parameters to their float32 parameters."""
        for master, narrow in self._pairs:
            for wide, gradient in zip(master.list_grad(), narrow.list_grad()):
                mx.nd.cast(gradient, dtype="float32", out=wide)
            for values in master.list_data():
                values._fresh_grad = True  # gluon's Trainer updates no other parameter

    def round_into_network(self):
        """Set the network's narrower parameters to the rounded float32 parameters."""
        for master, narrow in self._pairs:
            for values, rounded in zip(master.list_data(), narrow.list_data()):
                mx.nd.cast(values, dtype=narrow.dtype, out=rounded)


def to_float32(outputs):
    """Return the arrays `outputs` as a loss takes them: those of float16 in float32, others unchanged."""
    return [value.astype("float32") if value.dtype == np.float16 else value for value in outputs]
