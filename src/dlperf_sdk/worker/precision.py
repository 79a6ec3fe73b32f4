"""The precisions of a framework: a table from which its trainers take data types and derive the name in effect."""

import itertools
from typing import Any, Iterable, Mapping, NamedTuple


class Precision(NamedTuple):
    """Data types that a precision's name stands for, by names that all frameworks share: `float32`, `bfloat16`, …."""

    weights: str
    """Data type of the weights of convolutions and linear layers."""
    products: str
    """Data type in which convolutions and matrix products are computed."""
    tf32: bool = False
    """True where float32 products may be rounded to TF32."""

    @property
    def casts(self) -> bool:
        """True if weights are cast for each product, because they are stored in another type."""
        return self.weights != self.products


def name_precision(
    precisions: Mapping[str, Precision], weights: Iterable[Any], products: Iterable[Any], tf32: bool
) -> str:
    """Return the name of the precision that stores weights and computes products in these data types.

    Args:
        precisions: The precisions that the framework's plugin supports, by name.
        weights: The types in which the weights of convolutions and linear layers are stored: the framework's objects,
            or their names. A type may occur several times.
        products: The types that convolutions and matrix products return, in the same form.
        tf32: True if float32 products may be rounded to TF32.

    Returns:
        The name of the precision in `precisions` that has these types; if none has them, the name of the product's
        type. With several types, the different names for all combinations of weight and product, sorted and joined with
        "+". An empty text if `weights` or `products` is empty.
    """
    names = {(known.weights, known.products, known.tf32): name for name, known in precisions.items()}
    weight_names = {_type_name(dtype) for dtype in weights}
    product_names = {_type_name(dtype) for dtype in products}
    return "+".join(
        sorted(
            {
                names.get((weight, product, tf32), product)
                for weight, product in itertools.product(weight_names, product_names)
            }
        )
    )


def _type_name(dtype: Any) -> str:
    """Return `float16` of `torch.float16`, `paddle.float16` or `dtype('float16')`."""
    return str(getattr(dtype, "name", dtype)).rpartition(".")[2]
