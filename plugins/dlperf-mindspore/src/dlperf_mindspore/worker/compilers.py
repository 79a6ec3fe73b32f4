"""Define each compiler for MindSpore: what it makes of the function that computes loss and gradients."""

import mindspore as ms


def _compile_to_graph(function):
    """Return the function as MindSpore compiles it from its source code, at its first call, to one graph."""
    return ms.jit(function)


COMPILERS = {"none": lambda function: function, "graph": _compile_to_graph}
"""Compiler → the function that compiles."""
