"""The matrix of what a plugin declares, and the cells of it that are tried.

A plugin that is right in its plainest case may be wrong under one compiler, in one precision, with one strategy. All
combinations are too many: so each *pair* of declared values is tried, which is where such faults are.

- One replica: every model in every precision without a compiler; and with every compiler, every precision.
- Two replicas: every model with every strategy; and with every strategy, every compiler (in fp32) and every precision
  (without a compiler).

Where a cell leaves the model open, it is the first of the suite's `models` that the plugin does not refuse. Layouts,
data sources and accumulation are tried by themselves, in the plainest case (`DeclaredCapabilities`), and so is how a
case ends (`Ending`): they change what a step is fed with, and what surrounds it.

The cells beyond `select_covering` have the marker `pairwise`: `pytest -m "not pairwise"` tests each declared value
once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.interfaces.framework import Capabilities
from dlperf_sdk.spec.compiler import NONE
from dlperf_sdk.spec.precision import PRECISIONS
from dlperf_sdk.spec.strategy import STRATEGIES

SINGLE, PAIR = "1n1d", "1n2d"


@frozen
class Cell:
    """One cell."""

    models: tuple[str, ...]
    """The models that will do, the first one first."""
    precision: str = PRECISIONS.default
    compiler: str = NONE
    strategy: str | None = None
    """None for one replica, which has nobody to meet."""

    def __str__(self) -> str:
        """Return the test ID: the model if there is no choice, then the values that differ from the default."""
        models = self.models if len(self.models) == 1 else ()
        plain = Cell(self.models)
        special = [
            value
            for value, plain_value in ((self.precision, plain.precision), (self.compiler, plain.compiler))
            if value != plain_value
        ]
        return "-".join([*models, *([self.strategy] if self.strategy else []), *special])

    @property
    def is_plain(self) -> bool:
        """Return True if the cell is the plainest case of one model."""
        return self == Cell(self.models) and len(self.models) == 1

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of `RunSpec`, but for the model."""
        placement = (
            {"topology": SINGLE} if self.strategy is None else {"topology": PAIR, "strategy": self.strategy}
        )
        return {"precision": self.precision, "compiler": self.compiler, **placement}


def list_single_replica_cells(models: tuple[str, ...], capabilities: Capabilities) -> tuple[Cell, ...]:
    """Return the combinations of models, precisions and compilers that one replica must train with."""
    required = [
        Cell((model,), precision)
        for precision in _put_first(PRECISIONS.default, capabilities.precisions)
        for model in models
    ]
    compiled = [
        Cell(models, precision, compiler)
        for compiler in sorted(capabilities.compilers - {NONE})
        for precision in _put_first(PRECISIONS.default, capabilities.precisions)
    ]
    return (*required, *_skip_without_models(models, compiled))


def list_pair_cells(models: tuple[str, ...], capabilities: Capabilities) -> tuple[Cell, ...]:
    """Return the combinations that two replicas whose gradients are synchronized must train with."""
    strategies = sorted(name for name in capabilities.strategies if STRATEGIES[name].syncs_gradients)
    required = [Cell((model,), strategy=strategy) for strategy in strategies for model in models]
    special = [
        *({"compiler": compiler} for compiler in sorted(capabilities.compilers - {NONE})),
        *({"precision": precision} for precision in sorted(capabilities.precisions - {PRECISIONS.default})),
    ]
    varied = [Cell(models, strategy=strategy, **setting) for strategy in strategies for setting in special]
    return (*required, *_skip_without_models(models, varied))


def select_covering(cells: Iterable[Cell]) -> frozenset[Cell]:
    """Return the first cells that together have every value of every field: each adds a value."""
    values: set[tuple[str, Any]] = set()
    chosen = set()
    for cell in cells:
        items = set(attrs.asdict(cell).items())
        if not items <= values:
            chosen.add(cell)
            values |= items
    return frozenset(chosen)


def _put_first(value: str, declared: Iterable[str]) -> list[str]:
    """Return the names in order, except for one that comes first."""
    return sorted(declared, key=lambda name: (name != value, name))


def _skip_without_models(models: tuple[str, ...], cells: Sequence[Cell]) -> Sequence[Cell]:
    return cells if models else ()
