"""Define each compiler for TensorFlow."""

from functools import partial

import tensorflow as tf

COMPILERS = {
    "none": lambda function: function,
    "xla": partial(tf.function, autograph=False, jit_compile=True),
}
"""Compiler → the function that compiles what a replica computes by itself."""
