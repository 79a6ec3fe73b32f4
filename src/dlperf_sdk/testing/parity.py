"""The very model: its first steps, held against the float64 trajectories that the model's author laid down."""

from __future__ import annotations

import pytest

from dlperf_sdk.results.result import NOT_APPLICABLE, PASS
from dlperf_sdk.spec import RunSpec
from dlperf_sdk.testing.cells import Cell
from dlperf_sdk.testing.conformance import advice
from dlperf_sdk.testing.subject import FrameworkSubject, described


class Following(FrameworkSubject):
    """Parity, for one replica and for two, in every cell of the matrix."""

    def test_it_follows_the_reference(self, cell: Cell) -> None:
        """One replica, from the canonical weights on the canonical batch."""
        self._follows(self.spec_of(cell))

    def test_replicas_follow_the_reference(self, pair: Cell) -> None:
        """Two replicas whose gradients meet: equal is not enough, they can be wrong together."""
        self._follows(self.spec_of(pair))

    def _follows(self, spec: RunSpec) -> None:
        if self.registry.model(spec.model).references is None:
            pytest.skip(f"{spec.model} ships no reference trajectories")
        found = self.followed(spec)
        if found.outcome == NOT_APPLICABLE:
            pytest.skip(found.detail)
        self.excuse(found.traceback)
        assert found.outcome == PASS, advice(
            f"{described(spec)}: {found.detail}",
            "a throughput of another model, or of another optimizer, is compared with nobody's",
            "compare the worker half with the model's page (`dlperf describe`) at the first parameter that differs: "
            "its layer, or one after it, is wrong; if all differ by a factor, look at the loss's reduction, the mean "
            "of the gradients, and the optimizer",
        )
