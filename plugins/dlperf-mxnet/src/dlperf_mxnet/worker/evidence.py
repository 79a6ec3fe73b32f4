"""What was in effect: the types that were seen at work, and how far their values are from plain fp32's."""

import contextlib

import mxnet as mx
import numpy as np
from mxnet.contrib.amp.amp import bfloat16 as BFLOAT16


class Seen:
    """The types of the values that were noted."""

    def __init__(self):
        self.dtypes = set()

    def note(self, value):
        """An output of the network."""
        self.dtypes.add("bfloat16" if np.dtype(value.dtype) == BFLOAT16 else str(np.dtype(value.dtype)))

    def precision(self):
        """The types under the names of precisions; several are joined, and then none of them was in effect."""
        names = {"float16": "amp-fp16", "bfloat16": "amp-bf16", "float32": "fp32"}
        return "+".join(sorted(names.get(dtype, dtype) for dtype in self.dtypes))


@contextlib.contextmanager
def undisturbed(network):
    """Batch norm's running statistics are put back at the end."""
    kept = [
        (parameter, [values.copy() for values in parameter.list_data()])
        for parameter in network.collect_params().values()
        if parameter.grad_req == "null"
    ]
    yield
    mx.nd.waitall()
    for parameter, copies in kept:
        for values, copy in zip(parameter.list_data(), copies):
            copy.copyto(values)


def wide(values):
    """Outputs as float64 NumPy arrays."""
    return [_numbers(value.asnumpy()).astype(np.float64) for value in values]


def _numbers(array):
    """NumPy has no bfloat16, and MXNet gives its bits: they are the upper half of a float32's."""
    if array.dtype != BFLOAT16:
        return array
    return (array["bfloat16"].astype(np.uint32) << 16).view(np.float32)


def apart(values, references):
    """‖y - y32‖ / ‖y32‖ over all outputs, float64."""
    difference = sum(np.square(y - y32).sum() for y, y32 in zip(values, references))
    return float((difference / sum(np.square(y32).sum() for y32 in references)) ** 0.5)
