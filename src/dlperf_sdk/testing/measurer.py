"""Test a measurer: a pure function that leaves out what was not measured, and samplers that run on any node."""

from __future__ import annotations

import ast
import copy
import importlib.util
import math
from pathlib import Path
from typing import ClassVar

import attrs
import pytest

from dlperf_sdk.api import run
from dlperf_sdk.interfaces.measurer import Measured, Measurer, Metric
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.metrics import measured_of
from dlperf_sdk.results.result import Result
from dlperf_sdk.testing.conformance import Conformance, advice


class MeasurerConformance(Conformance):
    """The conformance suite of a measurer plugin.

    Subclass it, and name the measurer and a case whose result it summarizes.

        class TestMyMeasurer(MeasurerConformance):
            measurer = "my"
            framework, model = "numpy", "linear"

    The case is run once, with a batch of 4 samples and 2 repeats of 5 steps; all tests share the result.
    """

    measurer: ClassVar[str]
    """The name of the measurer in the group `dlperf_sdk.measurers`."""
    framework: ClassVar[str]
    """The framework of the case."""
    model: ClassVar[str]
    """The model of the case."""
    registry: ClassVar[Registry] = Registry()
    """The registry of plugins; by default, the installed ones."""

    _cache: ClassVar[list[Result]]

    def __init_subclass__(cls) -> None:
        cls._cache = []

    @property
    def plugin(self) -> Measurer:
        """The measurer, loaded.

        Raises:
            DlperfError: No such measurer is installed, or it cannot be loaded.
        """
        loaded: Measurer = self.registry.load("measurers", self.measurer)
        return loaded

    def test_measurement_is_pure(self) -> None:
        """Two calls of the measurer's `summarize` return the same metrics, and leave the measured data unchanged."""
        measured = self._measure()
        before = copy.deepcopy(measured)
        first, second = self.plugin.summarize(measured), self.plugin.summarize(measured)
        assert first == second, advice(
            f"Twice the same records, and different metrics: {first} and {second}.",
            "results are summarized again whenever they are read in another way",
            "compute from the argument alone: no clock, no files, no state",
        )
        assert before == measured, "the plugin changed the records"

    def test_metrics_are_valid(self) -> None:
        """Each metric that `summarize` returns has a unique name, a unit and a finite value.

        Each metric also has either no values per repeat, or one for each repeat.
        """
        measured = self._measure()
        metrics = self.plugin.summarize(measured)
        for metric in metrics:
            assert isinstance(metric, Metric) and metric.name and metric.unit is not None, metric
            assert math.isfinite(metric.value), advice(
                f"{metric.name} is {metric.value}.",
                "it cannot be written, compared or plotted",
                "leave a metric out that has no value",
            )
            assert len(metric.repeats) in (0, len(measured.repeats)), metric
        names = [metric.name for metric in metrics]
        assert len(set(names)) == len(names), f"two metrics share a name: {names}"

    def test_unmeasured_metrics_are_absent(self) -> None:
        """For a case without repeats, the measurer's `summarize` returns an empty tuple."""
        empty = attrs.evolve(self._measure(), repeats=())
        metrics = self.plugin.summarize(empty)
        assert metrics == (), advice(
            f"Without repeats it returns {metrics}.",
            "a metric that was not measured must be absent, not zero",
            "return an empty tuple",
        )

    def test_few_repeats_have_no_interval(self) -> None:
        """For a case of two repeats, no metric that `summarize` returns has an interval: intervals need six repeats."""
        for metric in self.plugin.summarize(self._measure()):
            assert metric.low is None and metric.high is None, advice(
                f"{metric.name} has an interval from {metric.low} to {metric.high} of two repeats.",
                "a distribution-free interval takes six repeats",
                "make metrics with `dlperf_sdk.results.metrics.measured_metric`",
            )

    def test_samplers_parse_as_python_3_7(self) -> None:
        """Each sampler's module exists and has the syntax of Python 3.7, which nodes may have.

        Its imports are not checked. Skipped if the measurer has no samplers.
        """
        if not self.plugin.samplers:
            pytest.skip("the measurer has no samplers")
        for reference in self.plugin.samplers:
            module_spec = importlib.util.find_spec(reference.partition(":")[0])
            assert module_spec is not None and module_spec.origin is not None, f"{reference} is not there"
            source = Path(module_spec.origin).read_text(encoding="utf-8")
            ast.parse(source, module_spec.origin, feature_version=(3, 7))

    def _measure(self) -> Measured:
        if not self._cache:
            self._cache.append(
                run(
                    self.framework,
                    self.model,
                    batch_size=4,
                    warmup=1,
                    steps=5,
                    repeats=2,
                    store=None,
                    registry=self.registry,
                )
            )
        result = self._cache[0]
        assert result.failure is None and result.workload is not None, result.failure
        return measured_of(result.spec, result.workload, "cpu", tuple(result.repeats))
