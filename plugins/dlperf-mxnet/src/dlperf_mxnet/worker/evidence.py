"""Evidence for the settings in effect: the types and values of outputs."""

import contextlib

import mxnet as mx
import numpy as np
from mxnet.contrib.amp.amp import bfloat16 as BFLOAT16


def type_of(output):
    """Return the name of the data type of `output`, an MXNet array, such as `float32` or `bfloat16`."""
    return "bfloat16" if np.dtype(output.dtype) == BFLOAT16 else str(np.dtype(output.dtype))


def weight_types(parameters):
    """Return a set of the names of the data types of convolutions' and linear layers' weights, such as `float32`.

    `parameters` is an iterable of gluon's parameters. Those with one axis, such as biases, are left out.
    """
    return {type_of(parameter) for parameter in parameters if len(parameter.shape) > 1}


@contextlib.contextmanager
def preserve_state(network):
    """Return a context manager that, at its end, restores the running statistics of the network's batch norms.

    If its block ends without an exception, the context manager first waits for all enqueued operations. `network` is a
    block of gluon.

    Raises:
        MXNetError: An enqueued operation failed.
    """
    saved = [
        (parameter, [values.copy() for values in parameter.list_data()])
        for parameter in network.collect_params().values()
        if parameter.grad_req == "null"
    ]
    try:
        yield
        mx.nd.waitall()
    finally:
        for parameter, copies in saved:
            for values, copy in zip(parameter.list_data(), copies):
                copy.copyto(values)


def widen_outputs(values):
    """Wait for the MXNet arrays in `values`, and return a list of them as float64 NumPy arrays.

    Arrays of bfloat16 are converted, too.

    Raises:
        MXNetError: The operation that computes a value failed.
    """
    return [_numbers(value.asnumpy()).astype(np.float64) for value in values]


def _numbers(array):
    """Return an array as NumPy's float32; a bfloat16's bits are the upper half of a float32's."""
    if array.dtype != BFLOAT16:
        return array
    return (array["bfloat16"].astype(np.uint32) << 16).view(np.float32)
