"""Predictions of the next larger topology of each series, for the scaling plots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.analysis.prediction import Prediction, predict
from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.reports.html.scaling_series import Series
from dlperf_sdk.reports.numbers import Scale
from dlperf_sdk.spec.values import TopologySpec


@frozen
class Forecast:
    """The prediction that continues a series."""

    name: str
    last: Case
    """The measured case that it starts from."""
    prediction: Prediction

    def rows(self, scale: Scale) -> list[dict[str, Any]]:
        """Return the rows of the plot on a scale: the last measured point, and the predicted one with its interval."""
        prediction = self.prediction
        start = self.last.throughput / scale.divisor
        shared = {"series": self.name, "line": False}
        return [
            {
                **shared,
                "devices": self.last.topology.devices,
                "forecast": start,
                "forecast_low": start,
                "forecast_high": start,
            },
            {
                **shared,
                "devices": prediction.topology.devices,
                "topology": f"{prediction.topology} (predicted)",
                "forecast": prediction.throughput / scale.divisor,
                "forecast_low": prediction.low / scale.divisor,
                "forecast_high": prediction.high / scale.divisor,
                "shown": f"{scale.format_alone(prediction.throughput)} {scale.unit}",
                "interval": scale.format_interval_alone(prediction.low, prediction.high),
            },
        ]


def forecasts(
    series: Sequence[Series], reference: Sequence[Case], topology: TopologySpec | None = None
) -> list[Forecast]:
    """Return the predictions of `topology`, or of twice the largest topology; none where they are impossible.

    Args:
        series: The measured series.
        reference: Published series to learn the growth from.
        topology: The topology to predict.
    """
    if not reference:
        return []
    predicted = []
    for curve in series:
        cases = [point.merged.case for point in curve.points]
        target = topology or _next_larger(cases)
        try:
            prediction = predict(cases, target, reference=reference)
        except AnalysisError:
            continue
        last = next(case for case in cases if _size(case) == prediction.measured)
        predicted.append(Forecast(curve.name, last, prediction))
    return predicted


def _size(case: Case) -> TopologySpec:
    return TopologySpec(case.topology.nodes, case.topology.devices_per_node)


def _next_larger(cases: Sequence[Case]) -> TopologySpec:
    """Return twice the nodes of the largest topology, or twice the devices of a single node."""
    largest = max((case.topology for case in cases), key=lambda topology: topology.devices)
    if largest.nodes == 1:
        return TopologySpec(1, 2 * largest.devices_per_node)
    return TopologySpec(2 * largest.nodes, largest.devices_per_node)
