"""Find sweeps: cases that differ in one size only, such as batch sizes 2, 4 and 8 of one case."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import frozen

from dlperf_sdk.analysis.case import Case, key
from dlperf_sdk.reports.series import Merged

_FOLLOWING = {"sequence_length": ("predictions_per_sequence",)}
"""A swept size → facts that change with it."""
SWEPT = ("batch_size", "image_size", "sequence_length")
"""Sizes that are swept."""


@frozen
class Sweep:
    """Runs of one case with different values of one size, the smallest first."""

    factor: str
    runs: tuple[Merged, ...]

    @property
    def case(self) -> Case:
        """The case with the smallest value."""
        return self.runs[0].case

    def value(self, run: Merged) -> float:
        """Return the swept size of a run."""
        return size_of(run.case, self.factor)


def size_of(case: Case, name: str) -> float:
    """Return the value of the fact `name` of a case, such as its batch size; 0 if it is not a number."""
    value = case.facts.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0


def sweeps(merged: Sequence[Merged]) -> list[Sweep]:
    """Return the sweeps of two values or more among merged cases, those with most values first."""
    result = []
    for factor in SWEPT:
        groups: dict[tuple[str, ...], dict[float, Merged]] = {}
        for run in merged:
            size = size_of(run.case, factor)
            if size > 0:
                names = sorted(run.case.holds() - {factor, *_FOLLOWING.get(factor, ())})
                identity = (run.case.unit, *(f"{name}={key(run.case.facts.get(name))}" for name in names))
                groups.setdefault(identity, {})[size] = run
        result += [
            Sweep(factor, tuple(runs[size] for size in sorted(runs)))
            for runs in groups.values()
            if len(runs) > 1
        ]
    return sorted(result, key=lambda sweep: -len(sweep.runs))


def swept_size(differing: Collection[str]) -> str | None:
    """Return the one size in which workloads differ, apart from facts that follow it; None if there is no such size."""
    for factor in SWEPT:
        if factor in differing and set(differing) <= {factor, *_FOLLOWING.get(factor, ())}:
            return factor
    return None
