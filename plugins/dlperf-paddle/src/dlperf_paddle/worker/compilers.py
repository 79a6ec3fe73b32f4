"""Define each compiler for Paddle."""

from functools import partial

import paddle

COMPILERS = {
    "none": lambda network: network,
    "graph": partial(paddle.jit.to_static, backend=None, full_graph=True),
    "cinn": partial(paddle.jit.to_static, backend="CINN", full_graph=True),
}
"""Compiler → the function that compiles a network."""
