"""The repeats of a result that lies in the store: how many there are is known, their records are read when asked for.

A result's own words are some kilobytes, its records are megabytes: a table of thousands of results needs none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from dlperf_sdk.results.records import Repeat


class StoredRepeats(Sequence[Repeat]):
    """A sequence of repeats that equals the tuple of them. All are read with the first, and kept.

    Raises (what looks at a repeat, not what counts them):
        DocumentError: a repeat's records are not where they belong, or not what they have to be.
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
    """Return the attempt numbers of these repeats without reading records from the store."""
    if isinstance(repeats, StoredRepeats):
        return repeats.attempts
    return tuple(repeat.attempt for repeat in repeats)
