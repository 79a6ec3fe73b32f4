"""Test that the worker's evidence follows the computation: the request is varied, and the evidence must change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from dlperf_sdk.spec.compiler import NONE
from dlperf_sdk.testing.cells import Cell
from dlperf_sdk.testing.conformance import advice
from dlperf_sdk.testing.subject import describe
from dlperf_sdk.testing.training import Training
from dlperf_sdk.worker.conformance import NO_SETTING


class Evidence(Training):
    """Tests of trainers for varied requests, in each cell of one replica. Skipped in cells with a compiler.

    They are also skipped where the case cannot run: see `FrameworkSubject`.
    """

    def test_deviation_depends_on_weights(self, cell: Cell) -> None:
        """With the settings of `cell`, the trainer's `deviation` is not a finite number if all weights are NaN.

        `deviation` is how far the model's outputs are from those in fp32. A trainer that raises an error for such
        weights passes. `cell` is a combination of model, precision and compiler for one replica.
        """
        finite = self._evidence(cell)["finite"]
        assert not finite, advice(
            f"{describe(self.spec_of(cell))}: all weights are NaN, and `deviation` is finite.",
            "a constant, or a comparison of anything but the model's outputs, is not evidence for the precision",
            "compute both outputs of `deviation` from the trainer's own weights, in every call",
        )

    def test_observed_settings_are_not_copied_from_request(self, cell: Cell) -> None:
        """If the request has a precision or compiler that does not exist, the trainer's `observed` does not repeat it.

        All other settings of the request are those of `cell`. A trainer that raises an exception for the name passes.
        `cell` is a combination of model, precision and compiler for one replica.
        """
        claims = self._evidence(cell)["claims"]
        repeated = [name for name in ("precision", "compiler") if claims.get(name) == NO_SETTING]
        assert not repeated, advice(
            f"{describe(self.spec_of(cell))}: `observed` repeats the {' and the '.join(repeated)} of the request, "
            f"{NO_SETTING!r}, which does not exist.",
            "requested and observed stand side by side in every result, and would always agree",
            "read what was in effect from the framework's objects; raise `Unsupported` for an unknown setting",
        )

    def test_unknown_names_are_refused(self, cell: Cell) -> None:
        """The worker half raises `Unsupported` for an unknown precision, compiler, layout, strategy or data source.

        The message has the unknown name. One setting at a time is unknown; the others are those of `cell`. `cell` is a
        combination of model, precision and compiler for one replica.
        """
        refusals = self._values_of_cell(cell)["refusals"]
        accepted = {
            name: refusal
            for name, refusal in refusals.items()
            if not re.match(f"Unsupported: .*{NO_SETTING}", refusal or "", re.DOTALL)
        }
        assert not accepted, advice(
            f"{describe(self.spec_of(cell))}: the worker half does not refuse the unknown name {NO_SETTING!r}: "
            + "; ".join(f"as {name}, {refusal or 'nothing is raised'}" for name, refusal in accepted.items()),
            "a worker that falls back to another setting measures another case than the requested one",
            "find it in a table with `dlperf_sdk.worker.unsupported.look_up`, as `BaseTrainer` does for `precisions`, "
            "`compilers`, `layouts` and `sources`, and `Runtime` for its `strategies`",
        )

    def _evidence(self, cell: Cell) -> dict[str, Any]:
        evidence: dict[str, Any] = self._values_of_cell(cell)["evidence"]
        return evidence

    def _values_of_cell(self, cell: Cell) -> Mapping[str, Any]:
        """Return the answer of the cell's worker; skip a cell with a compiler.

        Each altered request is another graph to compile, and `test_requested_compiler_is_in_effect` covers compilers.
        """
        if cell.compiler != NONE:
            pytest.skip("asked without a compiler only: each altered request would be compiled anew")
        return self._values_of(self.spec_of(cell))[0]
