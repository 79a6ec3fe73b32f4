"""A collection of published figures: values to compare with, and what their source prints about them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import evolve, frozen

from dlperf_sdk.errors import UsageError
from dlperf_sdk.interfaces.figure import PublishedFigure

if TYPE_CHECKING:
    from dlperf_sdk.reports.blocks import Block

_COMPARED_AS_TEXT = ("topology", "source")


@frozen
class Figures:
    """Figures of one collection, or a selection of them."""

    collection: str
    figures: tuple[PublishedFigure, ...]

    def __iter__(self) -> Iterator[PublishedFigure]:
        return iter(self.figures)

    def __len__(self) -> int:
        return len(self.figures)

    def filter(self, **conditions: Any) -> Figures:
        """Return the figures that have these values: `filter(framework="oneflow", topology=("1n1d", "4n8d"))`.

        A tuple, list or set means any of its members; a topology may be written as text. Options are selected
        like fields; None selects the figures whose source does not state the option.

        Raises:
            UnknownName: a name is neither a field nor an option.
        """
        figures = self.figures
        for name, value in conditions.items():
            members = value if isinstance(value, tuple | list | set | frozenset) else (value,)
            allowed = [str(member) if name in _COMPARED_AS_TEXT else member for member in members]
            figures = tuple(figure for figure in figures if _value(figure, name) in allowed)
        return evolve(self, figures=figures)

    def get(self, **conditions: Any) -> PublishedFigure:
        """Return the one figure that has these values.

        Raises:
            UnknownName: a name is neither a field nor an option.
            UsageError: there is none, or more than one.
        """
        selected = self.filter(**conditions).figures
        if len(selected) == 1:
            return selected[0]
        listed = ", ".join(f"{name}={value!r}" for name, value in conditions.items())
        if not selected:
            raise UsageError(f"{self.collection} has no figure with {listed}.")
        names = dict.fromkeys(name for figure in selected for name in figure.roles())
        differing = [name for name in names if len({repr(_value(figure, name)) for figure in selected}) > 1]
        raise UsageError(
            f"{self.collection} has {len(selected)} figures with {listed}. They differ in "
            f"{', '.join(differing)}: say which."
        )

    def values(self, name: str) -> tuple[Any, ...]:
        """Return the distinct values of a field or an option, in the order in which they occur.

        Raises:
            UnknownName: the name is neither.
        """
        return tuple(dict.fromkeys(figure.value(name) for figure in self.figures))


def _value(figure: PublishedFigure, name: str) -> Any:
    value = figure.value(name)
    return str(value) if name in _COMPARED_AS_TEXT else value


@frozen
class Disagreement:
    """A printed cell that the source's own figures contradict, or a protocol that they deviate from."""

    document: str
    line: int
    cell: str
    """Row and column of the cell, the name of a column, or the deviating figures."""
    printed: str
    computed: str
    reason: str


class Collection(ABC):
    """Published figures with their sources. Registered in the group `dlperf_sdk.collections`."""

    name: ClassVar[str]
    """The name used for selection; the entry point carries the same."""
    title: ClassVar[str]
    description: ClassVar[str]
    """Source of the figures, and its reliability."""

    @property
    @abstractmethod
    def figures(self) -> Figures:
        """All figures."""

    def tables(self) -> Sequence[Block]:
        """Return the tables of the source, regenerated from the figures, and derived statements."""
        return ()

    def disagreements(self) -> Sequence[Disagreement]:
        """Return the printed cells that the figures contradict, and the deviations from the source's protocol."""
        return ()
