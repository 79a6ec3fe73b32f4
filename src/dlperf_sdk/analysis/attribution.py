"""Attribution of a step's time to computation, communication and input, from runs that measured its parts alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import attrs
from attrs import frozen

from dlperf_sdk.analysis.case import Case, key
from dlperf_sdk.analysis.rank_test import hodges_lehmann_shift
from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.results.result import Result
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.part import PARTS
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.values import DataSpec
from dlperf_sdk.worker.estimate import median, median_interval


@frozen
class Span:
    """A length of time, with its interval of at least 95 %."""

    seconds: float
    """Length in seconds."""
    low: float | None
    """Lower end; None with too few repeats for an interval."""
    high: float | None
    """Upper end; None with too few repeats for an interval."""


@frozen(kw_only=True)
class Attribution:
    """The time of one case's step, divided into what the step waits for.

    Each run is a separate experiment, so the three parts add up to the step only within their intervals. A part is
    None if a run is missing that it needs. A difference is not clipped: a small negative one is noise.
    """

    spec: RunSpec
    """The case as a whole step, without labels."""
    step: Span
    """The longest step that was measured: the whole one, or that without input."""
    compute: Span
    """Time of the step of `compute`: no input, and no exchange between replicas."""
    communication: Span | None
    """Exposed communication: the step of `training` minus that of `compute`. None on one device."""
    input_stall: Span | None
    """Time that the step waits for input: the step of `whole` minus that of `training`."""
    communication_alone: Span | None
    """Time of the exchange alone; what exceeds `communication` overlaps with computation."""
    input_alone: Span | None
    """Time of the input alone; what exceeds `input_stall` overlaps with training."""


def attribute(results: Iterable[Result]) -> list[Attribution]:
    """Divide the time of a step into computation, communication and input, for each case whose parts were measured.

    The runs of one case differ in nothing but the part of a step that they measured. They have the same hosts and the
    same version of the framework. Of several runs of a part, the latest with the case's data source is used. If
    there is none, a part that reads no input is taken from the latest run with another data source. A case needs the
    part `compute`, and `training` or `whole`. Results without a valid throughput are left out.

    Some runs serve for two parts. If the data source has no input, `whole` and `training` are the same step. On one
    device, `training` and `compute` are the same step.

    Args:
        results: Results of any cases, in any order.

    Returns:
        An attribution for each case, in the order of the start of the case's first valid run; empty if no case has the
        parts.
    """
    specs: dict[str, tuple[RunSpec, str]] = {}
    runs: dict[str, dict[str, Case]] = {}
    without_input: dict[str, dict[str, Case]] = {}
    for result in sorted(results, key=lambda result: result.started_at):
        try:
            case = Case.from_source(result)
        except AnalysisError:
            continue
        spec = attrs.evolve(result.spec, part=PARTS.default, labels={})
        conditions = [
            [machine.get("host") for machine in result.hardware],
            case.facts.get("framework_version"),
        ]
        identity = key([spec.to_dict(), *conditions])
        without_data = key([attrs.evolve(spec, data=DataSpec(DATA_SOURCES.default)).to_dict(), *conditions])
        specs[identity] = spec, without_data
        runs.setdefault(identity, {})[result.spec.part] = case
        if not PARTS[result.spec.part].reads_input:
            without_input.setdefault(without_data, {})[result.spec.part] = case
    attributions = (
        _attribute(spec, {**without_input.get(without_data, {}), **runs[identity]})
        for identity, (spec, without_data) in specs.items()
    )
    return [attribution for attribution in attributions if attribution is not None]


def _attribute(spec: RunSpec, runs: Mapping[str, Case]) -> Attribution | None:
    takes_input, exchanges = DATA_SOURCES[spec.data.source].has_input, spec.topology.devices > 1
    compute, whole, training = (runs.get(part) for part in ("compute", "whole", "training"))
    if training is None:
        training = compute if not exchanges else None if takes_input else whole
    longest = whole or training
    if compute is None or longest is None or longest is compute:
        return None
    return Attribution(
        spec=spec,
        step=_span(longest),
        compute=_span(compute),
        communication=_difference(training, compute) if exchanges and training else None,
        input_stall=_difference(whole, training) if takes_input and whole and training else None,
        communication_alone=_span(runs["communication"]) if "communication" in runs else None,
        input_alone=_span(runs["input"]) if "input" in runs else None,
    )


def _step_times(case: Case) -> Sequence[float]:
    return [case.global_batch_size / throughput for throughput in case.repeats or (case.throughput,)]


def _span(case: Case) -> Span:
    times = _step_times(case)
    return Span(median(times), *(median_interval(times) or (None, None)))


def _difference(longer: Case, shorter: Case) -> Span:
    """Return the difference of two steps: the Hodges-Lehmann estimate, and the interval that inverts its test.

    The test is of ratios, and ratios of exponentials are exponentials of differences.
    """
    a, b = _step_times(longer), _step_times(shorter)
    unit = max(*a, *b)  # of the exponents, which it keeps small
    shift = hodges_lehmann_shift([math.exp(time / unit) for time in a], [math.exp(time / unit) for time in b])
    ends = (None if end is None else unit * math.log(end) for end in (shift.low, shift.high))
    return Span(unit * math.log(shift.ratio), *ends)
