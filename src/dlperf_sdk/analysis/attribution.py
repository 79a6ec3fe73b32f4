"""Attribution of a step's time to its parts, from runs of one case with some parts left out."""

from __future__ import annotations

from attrs import frozen

from dlperf_sdk.analysis.case import Case, differing_facts
from dlperf_sdk.errors import NotComparable
from dlperf_sdk.interfaces.figure import PublishedFigure
from dlperf_sdk.results.result import Result


@frozen(kw_only=True)
class Attribution:
    """Parts of a step, in seconds.

    A part for which a run is missing is None, not zero. Differences are not clipped: a small negative one is the
    noise of two measurements.
    """

    step: float
    """Length of the whole step: on real data if such a run is given, else on synthetic data."""
    input_stall: float | None
    """Length of the step on real data minus that on synthetic data."""
    input_work: float | None
    """Time that the input pipeline alone takes for the samples of a step."""
    input_hidden: float | None
    """Part of `input_work` that overlaps with computation."""
    communication_exposed: float | None
    """Length of the step on synthetic data minus that on one device. It includes the wait for slower devices."""
    communication_work: float | None
    """Time that the gradient synchronization alone takes."""
    communication_hidden: float | None
    """Part of `communication_work` that overlaps with computation."""
    compute: float | None
    """Length of the step of one device on synthetic data."""


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

    Args:
        real: The case on real data. It may differ from `synthetic` in data source and input pipeline only.
        synthetic: The case on synthetic data.
        single_device: The case on one device, with synthetic data and the same batch size per device. It may
            differ from `synthetic` in topology and strategy only.
        input_only: Throughput of the input pipeline alone, in samples per second over all devices.
        communication_only: Seconds that the synchronization of one step's gradients takes alone.

    Returns:
        The parts. A part is None if its runs or numbers are not given.

    Raises:
        NotComparable: two of the runs differ in something else.
        AnalysisError: a run has no valid throughput.
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
    fixed = {*a.identifying_facts(), *b.identifying_facts()} - allowed
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
