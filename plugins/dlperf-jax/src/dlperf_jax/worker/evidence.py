"""Evidence for the settings in effect: the products in the program that `step` runs."""

import contextlib

import jax
from jax import lax

PRODUCTS = frozenset({"conv_general_dilated", "dot_general"})
"""Names of JAX's primitives for convolutions and matrix products."""


def find_products(jaxpr):
    """Yield the equations (`JaxprEqn`) of convolutions and matrix products in `jaxpr` and in jaxprs nested in it."""
    for equation in jaxpr.eqns:
        if equation.primitive.name in PRODUCTS:
            yield equation
        for value in equation.params.values():
            for part in value if isinstance(value, (list, tuple)) else [value]:
                inner = getattr(part, "jaxpr", part)
                if hasattr(inner, "eqns"):
                    yield from find_products(inner)


def name_layouts(products):
    """Return the set of the layouts, `nchw` or `nhwc`, of the images that the convolutions among `products` take.

    `products` are equations that `find_products` yielded. The set leaves out convolutions that compute a kernel's
    gradient, because the axes of channels and samples are exchanged there. It is empty if no convolution is left.
    """
    names = {(0, 3, 1, 2): "nhwc", (0, 1, 2, 3): "nchw"}
    specs = {
        product.params["dimension_numbers"].lhs_spec
        for product in products
        if product.primitive.name == "conv_general_dilated"
    }
    return {names[spec] for spec in specs if spec in names}


def allows_tf32(products, device):
    """Return True if the device is a GPU and may round float32 operands of at least one of `products` to TF32.

    `products` are equations that `find_products` yielded; `device` is the kind of device, such as `cuda`.
    """
    exact = {lax.Precision.HIGHEST, (lax.Precision.HIGHEST, lax.Precision.HIGHEST)}
    return device == "cuda" and any(
        operand.aval.dtype == "float32" and product.params["precision"] not in exact
        for product in products
        for operand in product.invars
    )


@contextlib.contextmanager
def use_plain_fp32():
    """Return a context manager in which JAX computes float32 products in the full width of float32, without TF32."""
    with jax.default_matmul_precision("highest"):
        yield
