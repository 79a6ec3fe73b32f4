"""Repeats of a result in the store: their number is known, and their records are read when they are first used.

A result without its records has some kilobytes, its records have megabytes. A table of thousands of results needs
none of the records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from dlperf_sdk.results.records import Repeat


class StoredRepeats(Sequence[Repeat]):
    """A sequence of repeats whose records are in the store. It is equal to a tuple of the same repeats.

    The first access to any repeat reads the records of all repeats into memory. The length is known without reading.

    Args:
        attempts: The number of each repeat's attempt, in order.
        read: Function that reads the repeat with a given attempt number; its errors are raised on access.

    Raises:
        DocumentError: On access to a repeat, if the records of any repeat are missing or invalid.
    """

    def __init__(self, attempts: tuple[int, ...], read: Callable[[int], Repeat]) -> None:
        self.attempts = attempts
        """The number of each repeat's attempt."""
        self._read = read
        self._loaded: tuple[Repeat, ...] | None = None

    def __len__(self) -> int:
        return len(self.attempts)

    @overload
    def __getitem__(self, index: int) -> Repeat: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Repeat, ...]: ...
    def __getitem__(self, index: int | slice) -> Repeat | tuple[Repeat, ...]:
        if self._loaded is None:
            self._loaded = tuple(map(self._read, self.attempts))
        return self._loaded[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple | StoredRepeats):
            return NotImplemented
        return len(self) == len(other) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(self.attempts)

    def __repr__(self) -> str:
        return f"<the repeats {', '.join(map(str, self.attempts))}, in the store>"


def attempts_of(repeats: Sequence[Repeat]) -> tuple[int, ...]:
    """Return the attempt number of each repeat, in order, without reading records from the store."""
    if isinstance(repeats, StoredRepeats):
        return repeats.attempts
    return tuple(repeat.attempt for repeat in repeats)


def numbers_of(repeats: Sequence[Repeat], count: int) -> Sequence[int]:
    """Return, for each value of a metric, the attempt number of the repeat in which it was measured.

    If the result does not have `count` repeats, as with an imported log, the values are numbered from 1.

    Args:
        repeats: The result's repeats; no records are read.
        count: Number of the metric's values, one per repeat.
    """
    attempts = attempts_of(repeats)
    return attempts if len(attempts) == count else range(1, count + 1)
