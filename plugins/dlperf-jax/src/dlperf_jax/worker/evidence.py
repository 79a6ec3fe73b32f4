"""Evidence for what was in effect: the products in the program that `step` runs."""

import contextlib

import jax
from jax import lax

PRODUCTS = frozenset({"conv_general_dilated", "dot_general"})


def find_products(jaxpr):
    """Yield the convolutions and matrix products of a program, those of its parts included."""
    for equation in jaxpr.eqns:
        if equation.primitive.name in PRODUCTS:
            yield equation
        for value in equation.params.values():
            for part in value if isinstance(value, (list, tuple)) else [value]:
                inner = getattr(part, "jaxpr", part)
                if hasattr(inner, "eqns"):
                    yield from find_products(inner)


def name_layouts(products):
    """Return the layouts of the images that convolutions go over: `nhwc` or `nchw`.

    The gradient of a kernel is a convolution as well, over images whose channels take the place of the samples.
    """
    names = {(0, 3, 1, 2): "nhwc", (0, 1, 2, 3): "nchw"}
    specs = {
        product.params["dimension_numbers"].lhs_spec
        for product in products
        if product.primitive.name == "conv_general_dilated"
    }
    return {names[spec] for spec in specs if spec in names}


def allows_tf32(products, device):
    """Return True if a GPU may round the operands of some of these products, where they are float32, to TF32."""
    exact = {lax.Precision.HIGHEST, (lax.Precision.HIGHEST, lax.Precision.HIGHEST)}
    return device == "cuda" and any(product.params["precision"] not in exact for product in products)


@contextlib.contextmanager
def use_plain_fp32():
    """Compute products of float32 in the full width of float32."""
    with jax.default_matmul_precision("highest"):
        yield
