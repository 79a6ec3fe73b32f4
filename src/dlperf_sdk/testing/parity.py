"""Test parity: the first steps of training, compared with the float64 trajectories that the model ships."""

from __future__ import annotations

import pytest

from dlperf_sdk.execution.verification import verify
from dlperf_sdk.parity.evidence import REFERENCE_CASE
from dlperf_sdk.parity.reference import load
from dlperf_sdk.results.result import NOT_APPLICABLE, PASS, Parity
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.testing.cells import Cell
from dlperf_sdk.testing.conformance import advice
from dlperf_sdk.testing.subject import FrameworkSubject, describe

FULL = "full"
"""Name of the reference's case at the model's full size."""


class Following(FrameworkSubject):
    """Tests of parity, for one replica and for two, in every cell of the matrix.

    Each test is skipped if the model ships no reference, if parity does not apply to the case, and where the case
    cannot run: see `FrameworkSubject`.
    """

    def test_follows_reference(self, cell: Cell) -> None:
        """With the settings of `cell`, one replica follows the model's float64 reference: its parity is `pass`.

        It trains from the canonical weights on the canonical batch. `cell` is a combination of model, precision and
        compiler for one replica.
        """
        self._check_follows(self.spec_of(cell))

    def test_replicas_follow_reference(self, pair: Cell) -> None:
        """With the settings of `pair`, two replicas follow the model's float64 reference: the parity is `pass`.

        Replicas that are equal to each other could be equally wrong. `pair` is a combination of model, strategy,
        precision and compiler for two replicas.
        """
        self._check_follows(self.spec_of(pair))

    def test_follows_other_references(self, model: str) -> None:
        """In fp32, one replica of `model` follows each case of the model's reference that ordinary runs do not use.

        Ordinary runs do not show, for example, the first gradients of layers before a batch norm with a gamma of zero,
        since these gradients are zero. The full-size case is left to `dlperf verify --case full`. The
        workers have as many threads as in ordinary runs. Skipped if the reference has no such case.
        """
        references = self.registry.model(model).references
        cases = (
            []
            if references is None
            else [name for name in load(references).cases if name not in (REFERENCE_CASE, FULL)]
        )
        if not cases:
            pytest.skip(f"{model} has no other reference than {REFERENCE_CASE!r}")
        for case in cases:
            (parity,) = verify(
                [self.framework],
                model,
                case=case,
                registry=self.registry,
                device=self.device,
                python=self.python,
            )
            (row,) = parity.rows
            assert row.parity is not None, f"{self.framework} {model}, case {case}: {row.reason}"
            self.skip_if_unfinished(row.parity.traceback)
            self._check_passed(f"{self.framework} {model}, case {case}", row.parity)

    def test_gradient_accumulation_follows_reference(self) -> None:
        """A replica whose steps have two micro-batches follows the reference of the whole batch.

        Only a model without batch norm is tried, since batch norm sees each micro-batch alone. Skipped if there is no
        such model with a reference, or if the plugin does not declare accumulation.
        """
        if not self.plugin.capabilities.accumulation:
            pytest.skip("the plugin does not declare accumulation")
        models = [name for name in self.models_to_test() if self._has_no_running_means(name)]
        if not models:
            pytest.skip(f"no reference of {', '.join(self.models_to_test())} is free of batch norm")
        self._check_follows(self.select_accepted_spec(models, accumulation=2))

    def _has_no_running_means(self, model: str) -> bool:
        """Return True if the model's reference has no running means, so that accumulated gradients must follow it."""
        references = self.registry.model(model).references
        return references is not None and not load(references).cases[REFERENCE_CASE].alone[0].running_means

    def _check_follows(self, spec: RunSpec) -> None:
        if self.registry.model(spec.model).references is None:
            pytest.skip(f"{spec.model} ships no reference trajectories")
        parity = self.parity_of(spec)
        if parity.outcome == NOT_APPLICABLE:
            pytest.skip(parity.detail)
        self.skip_if_unfinished(parity.traceback)
        self._check_passed(describe(spec), parity)

    def _check_passed(self, subject: str, parity: Parity) -> None:
        assert parity.outcome == PASS, advice(
            f"{subject}: {parity.detail}",
            "the throughput of another model or optimizer cannot be compared with other frameworks",
            "compare the worker half with the model's page (`dlperf describe`) at the first parameter that differs: "
            "its layer, or one after it, is wrong; if all differ by a factor, look at the loss's reduction, the mean "
            "of the gradients, and the optimizer",
        )
