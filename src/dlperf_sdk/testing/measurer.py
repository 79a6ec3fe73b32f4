"""Test a measurer: pure, honest about what it does not know, and cheap on the nodes."""

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
from dlperf_sdk.results.result import Result
from dlperf_sdk.testing.conformance import Conformance, advice


class MeasurerConformance(Conformance):
    """Subclass it, name the measurer, and a case to show it.

    class TestMyMeasurer(MeasurerConformance):
        measurer = "my"
        framework, model = "numpy", "linear"
    """

    measurer: ClassVar[str]
    """The name it is listed under."""
    framework: ClassVar[str]
    model: ClassVar[str]
    registry: ClassVar[Registry] = Registry()

    _cache: ClassVar[list[Result]]

    def __init_subclass__(cls) -> None:
        cls._cache = []

    @property
    def plugin(self) -> Measurer:
        """The measurer; raises PluginError."""
        loaded: Measurer = self.registry.load("measurers", self.measurer)
        return loaded

    def test_it_is_pure(self) -> None:
        """The same repeats give the same metrics, and stay what they were."""
        measured = self._measure()
        before = copy.deepcopy(measured)
        first, second = self.plugin.summarize(measured), self.plugin.summarize(measured)
        assert first == second, advice(
            f"Twice the same records, and different metrics: {first} and {second}.",
            "results are summarized again whenever they are read in another way",
            "compute from the argument alone: no clock, no files, no state",
        )
        assert before == measured, "the plugin changed the records"

    def test_its_metrics_can_be_read(self) -> None:
        """Each has a name, a unit and a finite value, one per repeat where it has repeats."""
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

    def test_what_nobody_measured_is_absent(self) -> None:
        """Without repeats there is no metric, and no exception."""
        empty = attrs.evolve(self._measure(), repeats=())
        metrics = self.plugin.summarize(empty)
        assert metrics == (), advice(
            f"Of no repeats at all it says {metrics}.",
            "what could not be measured is absent, never zero",
            "return an empty tuple",
        )

    def test_few_repeats_have_no_interval(self) -> None:
        """Below six repeats nobody knows an interval."""
        for metric in self.plugin.summarize(self._measure()):
            assert metric.low is None and metric.high is None, advice(
                f"{metric.name} has an interval from {metric.low} to {metric.high} of two repeats.",
                "a distribution-free interval takes six repeats",
                "make metrics with `dlperf_sdk.measurers.series`",
            )

    def test_its_samplers_are_standard_library(self) -> None:
        """Check that the samplers parse as Python 3.7.

        They run on the nodes, where only the standard library is available.
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
        return Measured(
            tuple(result.repeats),
            result.workload.unit,
            result.spec.batch_size,
            result.spec.topology.devices,
            "cpu",
            result.spec.precision,
            result.workload.flops_per_sample,
        )
