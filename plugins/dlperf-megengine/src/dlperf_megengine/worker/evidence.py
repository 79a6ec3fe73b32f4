"""Preserve the state of the network while evidence for the settings in effect is taken."""

import contextlib

from megengine import module


@contextlib.contextmanager
def preserve_state(network):
    """Return a context manager that switches dropout of `network` off, and at its end restores dropout and buffers.

    `network` is a `megengine.module.Module`. Its buffers are the running statistics of batch norm.
    """
    buffers = [(buffer, buffer.numpy().copy()) for buffer in network.buffers()]
    dropouts = [(layer, layer.drop_prob) for layer in network.modules() if isinstance(layer, module.Dropout)]
    for layer, _ in dropouts:
        layer.drop_prob = 0.0
    try:
        yield
    finally:
        for layer, rate in dropouts:
            layer.drop_prob = rate
        for buffer, values in buffers:
            buffer[...] = values
