"""The matrix of the values that a plugin declares, and the cells of the matrix that the suite tries.

A plugin that is right in its plainest case may be wrong with one compiler, precision or strategy. There are too many
combinations to try all, so the suite tries every *pair* of declared values, where most such faults show.

- One replica: every model in every precision without a compiler; and every compiler with every precision.
- Two replicas: every model with every strategy that synchronizes gradients; and each of these strategies with every
  compiler (in fp32) and with every precision (without a compiler).

Where a cell names several models, the suite takes the first one that the plugin does not refuse. Layouts, data
sources and accumulation are tried one at a time in the plainest case (`DeclaredCapabilities`), and so is the end of a
case (`Ending`): they change the input of a step and what happens around it, not the step.

The cells that `select_covering` leaves out have the marker `pairwise`: `pytest -m "not pairwise"` tries each declared
value once.
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
"""Topologies of one replica and of two replicas on one node."""


@frozen
class Cell:
    """Settings that a conformance test tries: a precision, a compiler, a strategy, and models to choose from."""

    models: tuple[str, ...]
    """The models to choose from, in order of preference; the first one that the plugin does not refuse is taken."""
    precision: str = PRECISIONS.default
    """Name of the precision."""
    compiler: str = NONE
    """Name of the compiler."""
    strategy: str | None = None
    """The strategy of two replicas; None for a cell of one replica, which has no gradients to synchronize."""

    def __str__(self) -> str:
        """Return the ID of the cell in test names.

        It has the model's name if there is only one, the strategy if any, and the precision and compiler that are not
        the default, joined by hyphens.
        """
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
        """True if the cell names one model and nothing else: one replica, the default precision, no compiler."""
        return self == Cell(self.models) and len(self.models) == 1

    @property
    def fields(self) -> dict[str, Any]:
        """Fields of `RunSpec` as name → value: `precision`, `compiler`, `topology`; `strategy` if the cell has one.

        With a strategy, the topology is that of two replicas on one node; otherwise it is that of one replica.
        """
        placement = (
            {"topology": SINGLE} if self.strategy is None else {"topology": PAIR, "strategy": self.strategy}
        )
        return {"precision": self.precision, "compiler": self.compiler, **placement}


def list_single_replica_cells(models: tuple[str, ...], capabilities: Capabilities) -> tuple[Cell, ...]:
    """Return the cells for one replica: the combinations of settings that conformance tests try.

    First come the cells without a compiler: for each precision, one cell per model. Then, for each compiler, comes one
    cell per precision. A cell with a compiler names all of `models`, of which the suite takes the first that the plugin
    accepts. The default precision comes before the others. There are no cells if `models` is empty.

    Args:
        models: Names of the models to test, in order of preference.
        capabilities: What the framework's plugin declares.
    """
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
    """Return the cells for two replicas: the combinations of settings that conformance tests try.

    Only declared strategies that synchronize gradients are tried. First come the cells in the default precision without
    a compiler: for each strategy, one cell per model. Then, for each strategy, comes one cell per compiler and one per
    other precision. Such a cell names all of `models`, of which the suite takes the first that the plugin accepts.
    There are no cells if `models` is empty.

    Args:
        models: Names of the models to test, in order of preference.
        capabilities: What the framework's plugin declares.
    """
    strategies = sorted(name for name in capabilities.strategies if STRATEGIES[name].syncs_gradients)
    required = [Cell((model,), strategy=strategy) for strategy in strategies for model in models]
    special = [
        *({"compiler": compiler} for compiler in sorted(capabilities.compilers - {NONE})),
        *({"precision": precision} for precision in sorted(capabilities.precisions - {PRECISIONS.default})),
    ]
    varied = [Cell(models, strategy=strategy, **setting) for strategy in strategies for setting in special]
    return (*required, *_skip_without_models(models, varied))


def select_covering(cells: Iterable[Cell]) -> frozenset[Cell]:
    """Return a subset of the cells that has every value of every field at least once.

    The subset contains each cell that has a value which no earlier cell has in the same field.
    """
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
