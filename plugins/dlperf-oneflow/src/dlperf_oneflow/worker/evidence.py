"""What was in effect: the network left as it was found, and how far its outputs are from plain fp32."""

import contextlib

import numpy as np
from oneflow import nn

from dlperf_oneflow.worker.graphs import own


@contextlib.contextmanager
def undisturbed(network):
    """Dropout off, and the buffers (batch norm's running statistics) put back at the end."""
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


def apart(values, references):
    """‖y - y32‖ / ‖y32‖ over all outputs of this replica."""
    wide = [(_wide(y), _wide(y32)) for y, y32 in zip(values, references)]
    difference = sum(np.square(y - y32).sum() for y, y32 in wide)
    return float((difference / sum(np.square(y32).sum() for _, y32 in wide)) ** 0.5)


def _wide(value):
    return own(value).detach().numpy().astype(np.float64)
