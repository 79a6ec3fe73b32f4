"""Sweeps: cases that differ in one size only, such as batch sizes 2, 4 and 8 of one case."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import frozen

from dlperf_sdk.analysis.case import Case, key
from dlperf_sdk.reports.series import Merged

_FOLLOWING = {"sequence_length": ("predictions_per_sequence",)}
"""A swept size → facts that change with it."""
SWEPT = ("batch_size", "image_size", "sequence_length")
"""Facts that count as sizes."""
SIZES = frozenset({*SWEPT, *(fact for following in _FOLLOWING.values() for fact in following)})
"""Sizes, and the facts that change with them."""


@frozen
class Sweep:
    """Runs of one case with different values of one size, in ascending order."""

    factor: str
    """Name of the size: `batch_size`, `image_size` or `sequence_length`."""
    runs: tuple[Merged, ...]
    """The merged cases, at least two, each with another value."""

    @property
    def case(self) -> Case:
        """The case with the smallest value of the swept size."""
        return self.runs[0].case

    def value(self, run: Merged) -> float:
        """Return the value of the swept size in a case of the sweep, such as its batch size.

        Args:
            run: One of the sweep's `runs`.
        """
        return size_of(run.case, self.factor)


def size_of(case: Case, name: str) -> float:
    """Return the value of the fact `name` of a case; 0 if the case does not state it as a number."""
    value = case.facts.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


def sweeps(merged: Sequence[Merged]) -> list[Sweep]:
    """Return the sweeps among merged cases: cases that differ in one size only and have at least two values of it.

    Sweeps with most values come first. A case can be in several sweeps, one for each size in `SWEPT` that it states as
    a positive number. The list is empty if there is no sweep.
    """
    result = []
    for factor in SWEPT:
        groups: dict[tuple[str, ...], dict[float, Merged]] = {}
        for run in merged:
            size = size_of(run.case, factor)
            if size > 0:
                names = sorted(run.case.identifying_facts() - {factor, *_FOLLOWING.get(factor, ())})
                identity = (run.case.unit, *(f"{name}={key(run.case.facts.get(name))}" for name in names))
                groups.setdefault(identity, {})[size] = run
        result += [
            Sweep(factor, tuple(runs[size] for size in sorted(runs)))
            for runs in groups.values()
            if len(runs) > 1
        ]
    return sorted(result, key=lambda sweep: -len(sweep.runs))


def swept_size(differing: Collection[str]) -> str | None:
    """Return the name of the size, such as `batch_size`, that is the only difference between workloads.

    Args:
        differing: Names of all facts in which the workloads differ.

    Returns:
        The name; None if the workloads do not differ in a size, or also differ in a fact that does not follow from the
        size.
    """
    for factor in SWEPT:
        if factor in differing and set(differing) <= {factor, *_FOLLOWING.get(factor, ())}:
            return factor
    return None
