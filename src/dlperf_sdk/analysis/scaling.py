"""Speedup and scaling efficiency, with a fixed batch size per device (weak) or a fixed global batch size (strong)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from attrs import evolve, frozen

from dlperf_sdk.analysis.case import Case, cases, key
from dlperf_sdk.analysis.rank_test import hodges_lehmann_shift
from dlperf_sdk.errors import UnknownName
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.strategy import NO_STRATEGY
from dlperf_sdk.spec.values import TopologySpec

Scaling = Literal["weak", "strong"]
_FIXED = {"weak": "the batch per device", "strong": "the global batch"}


@frozen
class Scaled:
    """A speedup or an efficiency, or the reason why there is none."""

    case: Case
    """The case whose throughput is divided."""
    baseline: Case | None
    """The case that the throughput is divided by; None if there is none or several."""
    scaling: str
    """`weak` or `strong`."""
    value: float | None
    """The speedup or efficiency; None without a baseline."""
    low: float | None = None
    """Lower end of the interval; None if `high` is None."""
    high: float | None = None
    """Upper end of the interval of the rank-sum test of both cases' repeats; None if repeats are unknown or too few."""
    reason: str = ""
    """Why there is no value; empty if there is one."""


def speedup(
    case: Case | Result | PublishedFigure,
    candidates: Iterable[Case | Result | PublishedFigure],
    *,
    scaling: Scaling = "weak",
    baseline: str = "1n1d",
) -> Scaled:
    """Divide the throughput of a case by that of the same case on the baseline's topology.

    Weak scaling keeps the batch size per device, strong scaling the global batch size. A case on a single
    device can be the baseline of cases of every strategy.

    Args:
        case: The case whose throughput is divided.
        candidates: Cases among which the baseline is searched.
        scaling: `weak` or `strong`.
        baseline: Topology of the baseline; a launcher in it is ignored.

    Returns:
        The speedup. If the candidates have no baseline or several, its `value` is None, and `reason` says why.

    Raises:
        UnknownName: `scaling` is neither `weak` nor `strong`.
        AnalysisError: `Case.from_source` refuses `case` or one of the candidates.
        SpecError: The text of the baseline's topology is malformed.
    """
    if scaling not in _FIXED:
        raise UnknownName("kind of scaling", scaling, _FIXED)
    baseline_topology, scaled_case = TopologySpec.parse(baseline), Case.from_source(case)
    baselines = [
        candidate
        for candidate in cases(candidates)
        if (candidate.topology.nodes, candidate.topology.devices_per_node)
        == (baseline_topology.nodes, baseline_topology.devices_per_node)
        and _differ_in_topology_only(scaled_case, candidate, scaling)
    ]
    if len(baselines) != 1:
        how_many = f"are {len(baselines)}" if baselines else "is no"
        reason = f"There {how_many} {baseline} of this case with {_FIXED[scaling]} held."
        return Scaled(scaled_case, None, scaling, None, reason=reason)
    base = baselines[0]
    value = scaled_case.throughput / base.throughput
    if scaled_case == base:
        return Scaled(scaled_case, base, scaling, value, 1.0, 1.0)
    if not scaled_case.repeats or not base.repeats:
        return Scaled(scaled_case, base, scaling, value)
    shift = hodges_lehmann_shift(scaled_case.repeats, base.repeats)
    return Scaled(scaled_case, base, scaling, value, shift.low, shift.high)


def efficiency(
    case: Case | Result | PublishedFigure,
    candidates: Iterable[Case | Result | PublishedFigure],
    *,
    scaling: Scaling = "weak",
    baseline: str = "1n1d",
) -> Scaled:
    """Divide the speedup of a case by the ratio of its number of devices to the baseline's: 1 is ideal.

    The speedup is the throughput of the case divided by that of the same case on the baseline's topology. Weak scaling
    keeps the batch size per device, strong scaling the global batch size. A case on a single device can be the baseline
    of cases of every strategy.

    Args:
        case: The case whose throughput is divided.
        candidates: Cases among which the baseline is searched.
        scaling: `weak` or `strong`.
        baseline: Topology of the baseline; a launcher in it is ignored.

    Returns:
        The efficiency. If the candidates have no baseline or several, its `value` is None, and `reason` says why.

    Raises:
        UnknownName: `scaling` is neither `weak` nor `strong`.
        AnalysisError: `Case.from_source` refuses `case` or one of the candidates.
        SpecError: The text of the baseline's topology is malformed.
    """
    scaled = speedup(case, candidates, scaling=scaling, baseline=baseline)
    if scaled.baseline is None or scaled.value is None:
        return scaled
    device_ratio = scaled.case.topology.devices / scaled.baseline.topology.devices
    low = None if scaled.low is None else scaled.low / device_ratio
    high = None if scaled.high is None else scaled.high / device_ratio
    return evolve(scaled, value=scaled.value / device_ratio, low=low, high=high)


def _differ_in_topology_only(first: Case, second: Case, scaling: str) -> bool:
    varying = {"topology", "batch_size"}
    if NO_STRATEGY in (first.facts.get("strategy"), second.facts.get("strategy")):
        varying.add("strategy")
    if scaling == "weak" and first.batch_size != second.batch_size:
        return False
    if scaling == "strong" and first.global_batch_size != second.global_batch_size:
        return False
    fixed = (first.identifying_facts() | second.identifying_facts()) - varying
    return all(key(first.facts.get(name)) == key(second.facts.get(name)) for name in fixed)
