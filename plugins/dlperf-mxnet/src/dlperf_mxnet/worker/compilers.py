"""Define each compiler for MXNet."""

COMPILERS = {
    "none": lambda block: None,
    "graph": lambda block: block.hybridize(static_alloc=True, static_shape=True),
}
"""Compiler → the function that has a hybrid block compiled at its next call."""
