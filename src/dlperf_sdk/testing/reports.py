"""Test that a worker's reports on its device, its memory and its framework are plausible."""

from __future__ import annotations

from pathlib import Path

import pytest

from dlperf_sdk.execution.case import Case
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.planning.plan import make_plan
from dlperf_sdk.registry.capabilities import device_of
from dlperf_sdk.results.store import ResultStore
from dlperf_sdk.testing.cells import Cell
from dlperf_sdk.testing.conformance import advice
from dlperf_sdk.testing.subject import describe
from dlperf_sdk.testing.training import Training


class Reports(Training):
    """Tests of facts that only the worker can know, so that nothing can check them later.

    Each test is skipped where its case cannot run: see `FrameworkSubject`.
    """

    def test_framework_version_is_reported(self, model: str) -> None:
        """The runtime's `facts` have a `framework_version`, a text with a digit.

        The worker trains the model named `model` in fp32 on one device without a compiler.
        """
        version = self._answer(model)["facts"].get("framework_version")
        assert isinstance(version, str) and any(letter.isdigit() for letter in version), advice(
            f"`facts()` gives framework_version {version!r}.",
            "a number without the version of what ran cannot be repeated",
            "return {'framework_version': FRAMEWORK.__version__, …} from `Runtime.facts`",
        )

    def test_peak_memory_is_plausible(self, cell: Cell) -> None:
        """With the settings of `cell`, the runtime's `peak_memory` is None on a CPU.

        On other devices it is at least the bytes of float32 parameters and their gradients. `cell` is a combination of
        model, precision and compiler for one replica.
        """
        spec = self.spec_of(cell)
        peak = self._values_of(spec)[0]["peak_memory"]
        device = device_of(self.device, self.plugin)
        if device == "cpu":
            assert peak is None, advice(
                f"`peak_memory()` gives {peak!r} on a CPU.",
                "host memory is measured by the core, and unknown values are absent, never zero",
                "return None on a CPU",
            )
            return
        plan = make_plan(spec, self.registry)
        minimum = 2 * 4 * plan.workload.parameters  # the parameters and their gradients in float32
        assert isinstance(peak, int) and peak >= minimum, advice(
            f"`peak_memory()` gives {peak!r} bytes on {device}; parameters and gradients alone take {minimum}.",
            "memory is what decides which batch sizes fit, and is compared between frameworks",
            "return the allocator's peak since `reset_peak_memory`, over all devices of the process; where the "
            "framework cannot tell, return None, and say so in `known_gaps`",
        )

    def test_trace_has_a_summary(self, tmp_path: Path) -> None:
        """The framework's profiler writes a trace with events that `Capabilities.trace` names as work.

        The first model is traced in fp32 on one device without a compiler. Skipped if the plugin declares no profiler,
        or no events of work on the device. `tmp_path` is a directory for temporary files, which pytest provides.
        """
        declared, device = self.plugin.capabilities.trace, device_of(self.device, self.plugin)
        if declared is None:
            pytest.skip("the plugin declares no profiler")
        if device != "cpu" and not declared.device:
            pytest.skip(f"the plugin declares no events of work on {device}")
        spec = self.spec(self.models_to_test()[0])
        if (refused := self.refusal(spec)) is not None:
            pytest.skip(f"not on this machine: {refused}")
        case = Case.begin(spec, ResultStore(tmp_path), Observers.load(()), self.registry)
        case.prepare()
        self.skip_if_unfinished(case.failure)
        assert case.failure is None, f"{describe(spec)} could not be prepared: {case.failure}"
        case.trace()
        assert case.traces and case.traces[0].busy > 0, advice(
            f"{describe(spec)}: the trace has no summary. {' '.join(case.notes)}",
            "`dlperf run --trace` would show nothing about the steps",
            "let `Runtime.trace` write the profiler's events in Chrome's format when its context ends, and let "
            "`Capabilities.trace` select the operators among them",
        )

    def test_replica_reports_its_device(self, any_cell: Cell) -> None:
        """With the settings of `any_cell`, a run is valid, and each record names a device for each of its replicas.

        `any_cell` is a combination of model, precision and compiler, and of strategy if there are two replicas.
        """
        for record in self.require_valid_result(self.spec_of(any_cell)).repeats[0].records:
            for replica in record.replicas:
                assert replica.device, f"replica {replica.index} of rank {record.rank} names no device"

    def test_observed_settings_equal_requested(self, cell: Cell) -> None:
        """With the settings of `cell`, the trainer's `observed` has the requested precision.

        If it has `compiler`, `strategy` or `accumulation`, their values are the requested ones. `cell` is a combination
        of model, precision and compiler for one replica.
        """
        spec = self.spec_of(cell)
        observed = self._values_of(spec)[0]["observed"]
        for name in ("precision", "compiler", "strategy", "accumulation"):
            requested = getattr(spec, name)
            assert observed.get(name, requested) == requested, advice(
                f"{describe(spec)}: `observed()` says {name} {observed[name]!r}; {requested!r} was asked for.",
                "requested and observed stand side by side in every result",
                "do what the request says, or raise `Unsupported` with a sentence",
            )
        assert observed.get("precision") == spec.precision, advice(
            f"{describe(spec)}: `observed()` says nothing of the precision.",
            "without it only the deviation speaks for the precision",
            "return the type that convolutions and matrix products really gave out, as the request names it",
        )
