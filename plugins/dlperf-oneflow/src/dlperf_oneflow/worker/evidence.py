"""Preserve the state of the network while evidence for the settings in effect is taken."""

import contextlib

from oneflow import nn


@contextlib.contextmanager
def preserve_state(network):
    """Return a context manager that switches dropout of `network` off, and at its end restores dropout and buffers.

    `network` is an `nn.Module`. Its buffers are the running statistics of batch norm.
    """
    buffers = {name: buffer.clone() for name, buffer in network.named_buffers()}
    dropouts = [(module, module.p) for module in network.modules() if isinstance(module, nn.Dropout)]
    for module, _ in dropouts:
        module.p = 0.0
    try:
        yield
    finally:
        for module, p in dropouts:
            module.p = p
        for name, buffer in network.named_buffers():
            buffer.copy_(buffers[name])
