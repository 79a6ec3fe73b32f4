"""Collections of published figures: throughputs to compare with, and the tables that their sources print."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import evolve, frozen

from dlperf_sdk.errors import UsageError
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.spec.protocol import Protocol

if TYPE_CHECKING:
    from dlperf_sdk.reports.blocks import Block

_COMPARED_AS_TEXT = ("topology", "source")


@frozen
class Figures:
    """All figures of a collection, or some of them.

    Iteration and `len` are over the figures, in the order of the collection.
    """

    collection: str
    """Name of the collection."""
    figures: tuple[PublishedFigure, ...]

    def __iter__(self) -> Iterator[PublishedFigure]:
        return iter(self.figures)

    def __len__(self) -> int:
        return len(self.figures)

    def filter(self, **conditions: Any) -> Figures:
        """Return the figures whose fields and options have the given values; all figures without a condition.

            filter(framework="oneflow", topology=("1n1d", "4n8d"))

        Args:
            conditions: Name of a field or an option of `PublishedFigure` → value. A figure must meet every
                condition. A tuple, list or set allows each of its members. `topology` and `source` are compared
                as text. None for an option selects the figures whose source does not state the option.

        Returns:
            The selection, in the same order; it may be empty.

        Raises:
            UnknownName: A name is neither a field nor an option. Not raised if the preceding conditions leave no
                figure.
        """
        figures = self.figures
        for name, value in conditions.items():
            members = value if isinstance(value, tuple | list | set | frozenset) else (value,)
            allowed = [str(member) if name in _COMPARED_AS_TEXT else member for member in members]
            figures = tuple(figure for figure in figures if _value(figure, name) in allowed)
        return evolve(self, figures=figures)

    def get(self, **conditions: Any) -> PublishedFigure:
        """Return the only figure that meets the conditions.

        Args:
            conditions: Name of a field or an option of `PublishedFigure` → value, or a tuple, list or set of
                allowed values. `topology` and `source` are compared as text. None for an option selects the figures
                whose source does not state the option.

        Raises:
            UnknownName: A name is neither a field nor an option. Not raised if the preceding conditions leave no
                figure.
            UsageError: No figure meets the conditions; or several do, and the message names the fields in which they
                differ.
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
        """Return the distinct values that the figures have in a field or an option, in the order of first occurrence.

        A figure whose source does not state the option has the value None.

        Args:
            name: Name of a field or an option of `PublishedFigure`.

        Raises:
            UnknownName: The name is neither a field nor an option. Not raised if there is no figure.
        """
        return tuple(dict.fromkeys(figure.value(name) for figure in self.figures))


def _value(figure: PublishedFigure, name: str) -> Any:
    value = figure.value(name)
    return str(value) if name in _COMPARED_AS_TEXT else value


@frozen
class Disagreement:
    """A contradiction in a source: a printed value that the figures do not give, or figures that break the protocol."""

    document: str
    """Path or title of the document that prints the value."""
    line: int
    """Line in the document, counted from 1."""
    cell: str
    """Row and column of a table cell, the name of a column, or the figures that break the protocol."""
    printed: str
    """Text as printed."""
    computed: str
    """What the figures give instead, as text."""
    reason: str
    """Explanation of the difference."""
    difference: float | None = None
    """The printed number over the computed one, minus 1; None if no single number is wrong."""
    figures: int = 0
    """Number of figures that break the protocol; 0 for a cell."""
    is_rounding: bool = False
    """True if the printed number, read with the decimals of its table, is at most one unit of the last one away from
    the computed number."""


@frozen
class OutOfMemory:
    """A case that ran out of memory, as its source states. It has no figure."""

    facts: Mapping[str, Any]
    """Facts in which the figures of the case at other batch sizes agree with it; a value of None: the source does not
    state the fact. The source names no topology."""
    batch_size: int
    """Batch size per device that ran out of memory."""
    statement: str
    """The source's words."""
    document: str
    """Path or title of the document with the statement."""
    line: int
    """Line in the document, counted from 1."""

    def applies_to(self, facts: Mapping[str, Any]) -> bool:
        """Return True if another case has the same facts as this one; batch size and topology may differ.

        Args:
            facts: Facts of the other case: name → value. A missing fact counts as None, which is not stated.
        """
        return all(facts.get(name) == value for name, value in self.facts.items())


class Collection(ABC):
    """Published figures with their sources. Registered in the group `dlperf_sdk.collections`."""

    name: ClassVar[str]
    """The name used for selection; the entry point carries the same."""
    title: ClassVar[str]
    """One-line title for listings and pages."""
    description: ClassVar[str]
    """Source of the figures, and its reliability."""
    prescribed: ClassVar[Protocol | None] = None
    """The protocol that the source prescribes for its figures; None if it prescribes none."""
    aliases: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Another word that readers search for, in lower case → the word that the figures have, such as `pytorch` →
    `torch`."""
    printed_names: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Strategy of the figures → the source's own name for it, in lower case, such as `all_reduce` → `replicated`."""

    @property
    @abstractmethod
    def figures(self) -> Figures:
        """All figures of the collection."""

    def tables(self) -> Sequence[Block]:
        """Return report blocks: the tables of the source, rebuilt from the figures, and statements derived from them.

        The base class returns an empty sequence.
        """
        return ()

    def disagreements(self) -> Sequence[Disagreement]:
        """Return the contradictions between the texts that the source prints and its figures; empty if none is known.

        The base class returns an empty sequence.
        """
        return ()

    def out_of_memory(self) -> Sequence[OutOfMemory]:
        """Return the cases that ran out of memory, as the source states.

        The base class returns an empty sequence.
        """
        return ()

    def count_printed_cells(self) -> int:
        """Return the number of table cells printed in the source that `disagreements` checks against the figures.

        The base class returns 0.
        """
        return 0
