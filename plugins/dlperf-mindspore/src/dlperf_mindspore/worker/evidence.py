"""Preserve the state of the network while evidence for the settings in effect is taken."""

import contextlib

import mindspore as ms
from mindspore import nn
from mindspore.graph import api


@contextlib.contextmanager
def preserve_state(network):
    """Return a context manager that switches dropout of `network` off, and at its end restores dropout and buffers.

    `network` is an `nn.Cell`. Its buffers are the running statistics of batch norm.
    """
    buffers = [
        (parameter, parameter.asnumpy().copy())
        for name, parameter in network.parameters_and_names()
        if name.endswith(("moving_mean", "moving_variance"))
    ]
    dropouts = [cell for _, cell in network.cells_and_names() if isinstance(cell, nn.Dropout)]
    for cell in dropouts:
        cell.set_train(False)
    try:
        yield
    finally:
        for cell in dropouts:
            cell.set_train(True)
        for buffer, values in buffers:
            buffer.set_data(ms.Tensor(values))


def compiler(name):
    """Return `graph` if MindSpore has compiled a function with the name `name` in this process, else `none`."""
    return "graph" if any(".%s." % name in phase for phase in api.ms_compile_cache) else "none"
