"""Tables of declared objects: what the core knows of each precision, compiler, strategy and data source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, Protocol, TypeVar

from dlperf_sdk.errors import UnknownName


class Declaration(Protocol):
    """An object with a name."""

    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Declaration)


class Table(Generic[T]):
    """Declared objects by name, in the order of their declaration; the first one is the default.

    `table["amp-bf16"]` raises `UnknownName`, with a suggestion, where there is no such object.
    """

    def __init__(self, kind: str, declared: Iterable[T]) -> None:
        self.kind = kind
        self._declared = {declaration.name: declaration for declaration in declared}

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
        """Name of the object that a run spec has if it names none."""
        return next(iter(self._declared))

    @property
    def names(self) -> frozenset[str]:
        """All names."""
        return frozenset(self._declared)


def alternatives(names: Iterable[str]) -> str:
    """Return names as a choice in a sentence: `fp32, tf32 or amp-fp16`."""
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
