"""Tables of declared objects, such as all precisions, compilers, strategies and data sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from dlperf_sdk.errors import UnknownName


class Declaration(Protocol):
    """An object with a name."""

    @property
    def name(self) -> str:
        """Name of the object, with which a run spec selects it, such as `amp-bf16`."""


T = TypeVar("T", bound=Declaration)


class Table(Generic[T]):
    """Declared objects by name, in the order of declaration. The first one is the default.

    `table["amp-bf16"]` returns an object, `in` tests a name, and iteration yields the objects.

    Args:
        kind: Noun for one object in messages, such as `precision`.
        declared: The objects, at least one, each with another name.

    Raises:
        ValueError: Two objects have the same name.
        UnknownName: An object is looked up by a name that is not declared; the error suggests a similar one.
    """

    def __init__(self, kind: str, declared: Iterable[T]) -> None:
        self.kind = kind
        self._declared: dict[str, T] = {}
        for declaration in declared:
            if declaration.name in self._declared:
                raise ValueError(f"The {kind} {declaration.name!r} is declared twice; rename or remove one.")
            self._declared[declaration.name] = declaration

    def __getitem__(self, name: str) -> T:
        if name not in self._declared:
            raise UnknownName(self.kind, name, self._declared)
        return self._declared[name]

    def __contains__(self, name: object) -> bool:
        return name in self._declared

    def __iter__(self) -> Iterator[T]:
        return iter(self._declared.values())

    @property
    def default(self) -> str:
        """Name of the first object. It is in effect if a run spec names no object of the table."""
        return next(iter(self._declared))

    @property
    def names(self) -> frozenset[str]:
        """Names of all objects."""
        return frozenset(self._declared)


def alternatives(names: Iterable[str]) -> str:
    """Return names as a choice for a sentence: `fp32, tf32 or amp-fp16`.

    Raises:
        ValueError: There is no name.
    """
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
