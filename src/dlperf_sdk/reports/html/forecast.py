"""Predictions of larger topologies, for the scaling plots."""

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
    """A prediction that continues a series."""

    name: str
    """Name of the series."""
    last: Case
    """The measured case that the prediction starts from."""
    prediction: Prediction

    def rows(self, scale: Scale) -> list[dict[str, Any]]:
        """Return two rows for the plot `line_charts.scaling`: the last measured point, and the predicted interval.

        Both rows have the keys `series`, `devices`, `forecast_low`, `forecast_high` and `line` (False). With a point
        forecast, both have `forecast`. In the first row, these forecasts are the measured throughput. The second row
        also has the texts `topology` and `interval` and, with a point forecast, `shown`.

        Args:
            scale: Scale of the plot's throughputs. The values are in its unit.
        """
        prediction, throughput = self.prediction, self.prediction.throughput
        start = self.last.throughput / scale.divisor
        shared = {"series": self.name, "line": False}
        first = {
            **shared,
            "devices": self.last.topology.devices,
            "forecast_low": start,
            "forecast_high": start,
        }
        second = {
            **shared,
            "devices": prediction.topology.devices,
            "topology": f"{prediction.topology} (predicted)",
            "forecast_low": prediction.low / scale.divisor,
            "forecast_high": prediction.high / scale.divisor,
            "interval": scale.format_interval_alone(prediction.low, prediction.high),
        }
        if throughput is not None:
            first["forecast"] = start
            second |= {
                "forecast": throughput / scale.divisor,
                "shown": f"{scale.format_alone(throughput)} {scale.unit}",
            }
        return [first, second]


def forecasts(
    series: Sequence[Series], reference: Sequence[Case], topology: TopologySpec | None
) -> list[Forecast]:
    """Return a prediction for each series that allows one, in their order; empty if `reference` is empty.

    Args:
        series: The measured series.
        reference: Published cases from which the growth is learned.
        topology: The topology to predict; None: twice the nodes of the series' largest topology, or twice the devices
            of a single node.
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
        largest = _without_launcher(prediction.measured)
        last = next(case for case in cases if _without_launcher(case.topology) == largest)
        predicted.append(Forecast(curve.name, last, prediction))
    return predicted


def _without_launcher(topology: TopologySpec) -> TopologySpec:
    return TopologySpec(topology.nodes, topology.devices_per_node)


def _next_larger(cases: Sequence[Case]) -> TopologySpec:
    """Return twice the nodes of the largest topology, or twice the devices of a single node."""
    largest = max((case.topology for case in cases), key=lambda topology: topology.devices)
    if largest.nodes == 1:
        return TopologySpec(1, 2 * largest.devices_per_node)
    return TopologySpec(2 * largest.nodes, largest.devices_per_node)
