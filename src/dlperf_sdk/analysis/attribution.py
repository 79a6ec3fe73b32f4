"""Attribute a step's time to its parts, from runs of one case with parts of it left out."""

from __future__ import annotations

from attrs import frozen

from dlperf_sdk.analysis.case import Case, differing_facts
from dlperf_sdk.errors import NotComparable
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.results.result import Result


@frozen(kw_only=True)
class Attribution:
    """The parts of a step, in seconds. A part for which a run is missing is None, not zero.

    Differences are given as they come out: a small negative one is the noise of two measurements.
    """

    step: float
    """The whole step, on real data where such a run is given, else on synthetic data."""
    input_stall: float | None
    """The step's time on real data less that on synthetic data."""
    input_work: float | None
    """Time of the input pipeline alone for the samples of a step."""
    input_hidden: float | None
    """The part of it that overlaps with computation."""
    communication_exposed: float | None
    """The step's time on synthetic data less that of one device. It includes stragglers."""
    communication_work: float | None
    """Time of gradient synchronization alone."""
    communication_hidden: float | None
    """The part of it that overlaps with computation."""
    compute: float | None
    """The step of one device alone, on synthetic data."""


_INPUT = {"data", "input_pipeline", "loader_workers"}
_DEVICES = {"topology", "strategy"}


def attribute(
    *,
    real: Case | Result | PublishedFigure | None = None,
    synthetic: Case | Result | PublishedFigure,
    single_device: Case | Result | PublishedFigure | None = None,
    input_only: float | None = None,
    communication_only: float | None = None,
) -> Attribution:
    """Divide the time of a step into input, communication and computation.

    `real` and `synthetic` differ in their data only, `synthetic` and `single_device` (one device, the same batch per
    device) in their topology only. `input_only` is the throughput of the input pipeline by itself, in samples per
    second over all devices; `communication_only` the seconds that the gradients of a step take by themselves.

    Raises:
        NotComparable: two of the runs differ in something else.
        AnalysisError: a run has no throughput.
    """
    base = Case.from_source(synthetic)
    real_case = base if real is None else Case.from_source(real)
    _check(real_case, base, _INPUT)
    single = None if single_device is None else Case.from_source(single_device)
    if single is not None:
        _check(base, single, _DEVICES)
    stall = None if real is None else real_case.step_time - base.step_time
    exposed = None if single is None else base.step_time - single.step_time
    work = None if input_only is None else real_case.global_batch_size / input_only
    return Attribution(
        step=real_case.step_time,
        input_stall=stall,
        input_work=work,
        input_hidden=None if work is None or stall is None else work - stall,
        communication_exposed=exposed,
        communication_work=communication_only,
        communication_hidden=None
        if communication_only is None or exposed is None
        else communication_only - exposed,
        compute=None if single is None else single.step_time,
    )


def _check(a: Case, b: Case, allowed: set[str]) -> None:
    fixed = {*a.holds(), *b.holds()} - allowed
    reasons = [
        f"{name}: {a.facts.get(name)} against {b.facts.get(name)}"
        for name in sorted(differing_facts((a, b)) & fixed)
    ]
    if a.unit != b.unit:
        reasons.append(f"unit: {a.unit} against {b.unit}")
    if reasons:
        raise NotComparable(
            f"{a.name} and {b.name} are not the same case: they differ in {'; '.join(reasons)}.", reasons
        )
