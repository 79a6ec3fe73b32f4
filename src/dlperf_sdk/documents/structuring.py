"""Conversion of documents that follow their schema into values of attrs classes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

from dlperf_sdk.documents.json_values import number, numbers

if TYPE_CHECKING:
    from cattrs import Converter

T = TypeVar("T")

_SCALARS = {str, int, float, bool, type(None)}
"""The types of `dlperf_sdk.spec.values.Scalar`."""


def structure(document: Mapping[str, Any], cls: type[T]) -> T:
    """Return an instance of an attrs class with the values of a document. It shares nothing mutable with the document.

    Keys that the class has no field for, such as the version, are ignored.

    Args:
        document: Plain data. It must follow the schema of the class; this is not checked here.
        cls: The attrs class.
    """
    return converter().structure(document, cls)


@cache
def converter() -> Converter:
    """Return the cattrs converter that `structure` uses. All callers share it: copy it to add hooks."""
    from cattrs import Converter

    result = Converter(detailed_validation=False)
    result.register_structure_hook_func(lambda kind: kind is Any, lambda value, _: _copy(value))
    result.register_structure_hook_func(
        lambda kind: _strip_annotations(kind) is float, lambda value, _: number(value)
    )
    result.register_structure_hook_func(
        lambda kind: set(get_args(_strip_annotations(kind))) == _SCALARS, lambda value, _: value
    )
    result.register_structure_hook_func(_is_floats, lambda value, _: numbers(value))
    return result


def _strip_annotations(kind: Any) -> Any:
    """Return a type without annotations."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _is_floats(kind: Any) -> bool:
    bare = _strip_annotations(kind)
    arguments = get_args(bare)
    return get_origin(bare) is tuple and arguments[1:] == (...,) and _strip_annotations(arguments[0]) is float


def _copy(value: Any) -> Any:
    """Return a copy of plain JSON data."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
