"""Test the declared capabilities: precisions, compilers, layouts, data sources and accumulation, in short real runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from dlperf_sdk.results.result import PASS, Result
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.testing.cells import Cell
from dlperf_sdk.testing.conformance import advice
from dlperf_sdk.testing.leftovers import check_leftovers
from dlperf_sdk.testing.subject import FrameworkSubject, describe, verdict
from dlperf_sdk.worker.request import resolve


class DeclaredCapabilities(FrameworkSubject):
    """Tests of the values that the plugin declares, such as precisions, compilers, layouts and data sources.

    Precisions are tested in each cell of one replica. Each other value is tested by itself: the other settings are the
    plainest ones, and the model is the first for which the plugin does not refuse the value.

    Each test is skipped where its case cannot run: see `FrameworkSubject`.
    """

    def test_requested_precision_is_in_effect(self, cell: Cell) -> None:
        """With the settings of `cell`, a run is valid, and passes the check `precision-effective`.

        That check passes if the outputs deviate from fp32 by an amount within the bounds of the cell's precision.
        `cell` is a combination of model, precision and compiler for one replica.
        """
        spec = self.spec_of(cell)
        judgement = verdict(self.require_valid_result(spec), "precision-effective")
        assert judgement.outcome == PASS, advice(
            f"{describe(spec)}: {judgement.detail}",
            "a framework that falls back to fp32 without a word would be measured under another name",
            "let `deviation` compare the outputs as `step` computes them with plain fp32, and let `observed` say which "
            "type was really at work",
        )

    def test_requested_compiler_is_in_effect(self, compiler: str) -> None:
        """A run with the compiler named `compiler` is valid, and its first record reports this compiler."""
        self._check_observed(self.select_accepted_spec(compiler=compiler), "compiler", compiler)

    def test_requested_layout_is_in_effect(self, layout: str) -> None:
        """A run with `layout`, which is `nchw` or `nhwc`, is valid, and its first record reports this layout."""
        self._check_observed(self.select_accepted_spec(layout=layout), "layout", layout)

    def test_trains_from_data_source(self, source: str) -> None:
        """A run with the data source named `source` is valid, and leaves no process, file or shared memory behind.

        If the source reads a folder, the suite writes a small one for it. Skipped if none of the models takes the
        source, or if the source needs a module that is not installed.
        """
        with _data(source) as text:
            models = {name: self.registry.model(name) for name in self.models_to_test()}
            accepting = [
                name for name, model in models.items() if source in model.data_sources(model.Options())
            ]
            if not accepting:
                pytest.skip(f"none of the models takes {source!r}: {', '.join(self.models_to_test())}")
            check_leftovers(
                lambda env: self.require_valid_result(
                    self.select_accepted_spec(accepting, data=text, env=env)
                )
            )

    def test_gradient_accumulation_is_one_step(self) -> None:
        """A run whose steps have two micro-batches is valid, and counts every sample of a batch once per step.

        If the plugin does not declare accumulation, planning must refuse the case with Unsupported.
        """
        model = self.models_to_test()[0]
        if not self.plugin.capabilities.accumulation:
            refused = self.refusal(self.spec(model, accumulation=2))
            assert refused is not None and refused.kind == "unsupported", refused
            return
        spec = self.select_accepted_spec(accumulation=2)
        for record in (entry for repeat in self.result_of(spec).repeats for entry in repeat.records):
            expected = len(record.step_times) * spec.batch_size
            assert record.samples == expected, advice(
                f"{describe(spec)} took {record.samples} samples, and without accumulation it is {expected}.",
                "gradient accumulation is inside one step",
                "let `step` go through all micro-batches, and return the samples of all",
            )
        self.require_valid_result(spec)

    def _check_observed(self, spec: RunSpec, name: str, requested: str) -> Result:
        result = self.require_valid_result(spec)
        observed = result.repeats[0].records[0].observed.get(name)
        assert observed == requested, advice(
            f"{describe(spec)}: the worker observed the {name} {observed!r}.",
            "a request that changes nothing would be published as if it had",
            f"do what is asked; and let `observed` say under {name!r} what was really in effect, from the state of the "
            "framework, not from the request",
        )
        return result


@contextmanager
def _data(source: str) -> Iterator[str]:
    """Yield the data source as a spec names it, with a folder of samples if it takes one."""
    declared = DATA_SOURCES[source]
    if declared.sample_folder is None:
        yield source
        return
    if declared.module is not None:
        pytest.importorskip(declared.module, reason=f"{source} needs dlperf-sdk[{source}]")
    with TemporaryDirectory(prefix="dlperf-conformance-") as folder:
        resolve(declared.sample_folder)(Path(folder))
        yield f"{source}:{folder}"
