"""Test the parts of a training step that a plugin can measure alone."""

from __future__ import annotations

from typing import Any

import pytest

from dlperf_sdk.results.result import PASS
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.strategy import INDEPENDENT, STRATEGIES
from dlperf_sdk.testing.cells import PAIR
from dlperf_sdk.testing.conformance import advice
from dlperf_sdk.testing.subject import FrameworkSubject, describe, verdict


class Parts(FrameworkSubject):
    """Tests of the parts of a step that the plugin declares: each window does the part, and nothing else.

    Each test is skipped if the plugin does not declare the part, or has nothing that the part could measure.
    """

    def test_input_is_taken_alone(self) -> None:
        """A run with `part="input"` takes batches with the labels of the data source, and changes no state.

        The verdict `window-verified` of the run must be `pass`. Skipped if the plugin declares no data source
        that both loads batches in each step (unlike `synthetic`) and needs no folder.
        """
        source = next(
            (
                source.name
                for source in DATA_SOURCES
                if source.has_input
                and not source.takes_folder
                and source.name in self.plugin.capabilities.data
            ),
            None,
        )
        if source is None:
            pytest.skip("the plugin declares no data source without a folder whose input takes work")
        spec = self._spec("input", data=source)
        self._require_verified_window(
            spec,
            "the rate of the input would be another one",
            "let `take` return the labels of the batch and nothing more (`BaseTrainer` does), and let `batches` yield "
            "the batches of the data source",
        )

    def test_communication_is_exchanged_alone(self) -> None:
        """A run with `part="communication"` averages buffers of the gradients' sizes over two replicas, and no more.

        The verdict `window-verified` of the run must be `pass`. Skipped if the plugin declares no strategy that is a
        collective.
        """
        strategies = sorted(
            name for name in self.plugin.capabilities.strategies if STRATEGIES[name].is_collective
        )
        if not strategies:
            pytest.skip("the plugin declares no strategy that is a collective")
        spec = self._spec("communication", topology=PAIR, strategy=strategies[0])
        self._require_verified_window(
            spec,
            "the bandwidth would be that of another exchange",
            "let `run` of what `gradient_exchange` returns average arrays of the gradients' sizes, as a step does",
        )

    def test_compute_exchanges_nothing(self) -> None:
        """In a run with `part="compute"`, two replicas train on their own shards, and end with different parameters.

        Skipped if the plugin does not declare the strategy `independent`.
        """
        if INDEPENDENT not in self.plugin.capabilities.strategies:
            pytest.skip(f"the plugin does not declare the strategy {INDEPENDENT!r}, with which the part runs")
        strategy = min(self.plugin.capabilities.strategies - {INDEPENDENT}, default=INDEPENDENT)
        spec = self._spec("compute", topology=PAIR, strategy=strategy)
        result = self.require_valid_result(spec)
        digests = {replica.digest for record in result.repeats[0].records for replica in record.replicas}
        assert len(digests) > 1, advice(
            f"{describe(spec)}, part compute: the replicas end equal, so their gradients were synchronized.",
            "the exchange would count as computation",
            "follow `request.syncs_gradients`, which is false for this part",
        )

    def _spec(self, part: str, **fields: Any) -> RunSpec:
        if part not in self.plugin.capabilities.parts:
            pytest.skip(f"the plugin does not declare the part {part}")
        return self.select_accepted_spec(part=part, canonical_steps=2, **fields)

    def _require_verified_window(self, spec: RunSpec, reason: str, change: str) -> None:
        result = self.result_of(spec)
        self.skip_if_unfinished(result.failure)
        assert result.failure is None, advice(
            f"{describe(spec)}, part {spec.part}, ended with {result.status}: {result.failure.message}",
            "a plugin that declares the part must be able to measure it",
            f"read the traceback below, or take the part out of `capabilities`\n{result.failure.traceback or ''}",
        )
        window = verdict(result, "window-verified")
        assert window.outcome == PASS, advice(
            f"{describe(spec)}, part {spec.part}: window-verified is {window.outcome}: {window.detail}",
            reason,
            change,
        )
        self.require_valid_result(spec)
