"""Parity evidence for a plan: a short run with the settings that are measured, or the evidence of an earlier run."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.environments import PreparedEnvironment
from dlperf_sdk.errors import FAILURES, DlperfError, DocumentError, RunFailed
from dlperf_sdk.parity import cache
from dlperf_sdk.parity.compare import Comparison, compare, expected_trajectories
from dlperf_sdk.parity.key import key_of
from dlperf_sdk.parity.record import ParityRecord, records_from
from dlperf_sdk.parity.reference import Reference, ReferenceCase, load
from dlperf_sdk.planning.plan import Plan, make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.agent_events import failure_from
from dlperf_sdk.results.records import Failure
from dlperf_sdk.results.result import FAIL, INCONCLUSIVE, NOT_APPLICABLE, Parity
from dlperf_sdk.spec.data_source import DATA_SOURCES
from dlperf_sdk.spec.part import PARTS
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.values import DataSpec
from dlperf_sdk.worker.dates import now
from dlperf_sdk.worker.request import Request

REFERENCE_CASE = "small"
"""The case of a model's reference that ordinary runs are compared with."""
WARMUP_CASE = "warmup"
"""The case that runs with the learning-rate policy `warmup` are compared with: the rate rises in its first steps."""

OWN_PREFIX = ("crashed", "timeout", "invalid-record")
"""Failures of a parity run that make its verdict fail. Other failures (no memory, a lost node) would end the next
launch as well."""
TAIL = 4000
"""Number of characters from the end of a log that are kept if there is no traceback."""


@frozen
class ParityRun:
    """A parity run to launch, with the reference that its records are compared with."""

    case_plan: Plan
    """Plan of the case that needs the evidence."""
    plan: Plan
    """Plan of the parity run."""
    request: Request
    """Request of the parity run."""
    reference: Reference
    """The model's reference."""
    reference_case: str
    """Name of the case in the reference."""
    key: str
    """Key of the evidence in the cache."""
    cacheable: bool = True
    """False if the evidence must not serve other runs from here, because the run takes place on another machine."""


def reference_case_of(spec: RunSpec) -> str:
    """Return the name of the case in a model's reference that runs of a spec are compared with."""
    return REFERENCE_CASE if spec.learning_rate_policy == "constant" else WARMUP_CASE


def plan_parity_run(
    plan: Plan,
    environment: PreparedEnvironment,
    variables: Mapping[str, str | None],
    registry: Registry,
    on_progress: Callable[[str], None] = lambda text: None,
    *,
    reference_case: str | None = None,
    use_cache: bool = True,
) -> ParityRun | Parity:
    """Return the parity run to launch for a case, or the finished evidence, a `Parity`, if no run has to be launched.

    Args:
        plan: The plan of the case that needs evidence.
        environment: The environment of the case's workers.
        variables: Name of each environment variable of the workers → value; None stands for its value on the node.
        registry: The plugins.
        on_progress: Called with a line of text about the run or the cached evidence.
        reference_case: Name of the case in the model's reference; None for that of the learning-rate policy.
        use_cache: True to accept evidence of an earlier run from the cache, unless it fails the comparison.

    Returns:
        The run; or a `Parity` with one of these outcomes: `pass` from the cached evidence of an earlier run;
        `inconclusive` if the model has no usable reference for the case or if the reference's case cannot be planned;
        `not-applicable` if the strategy has no single correct trajectory, or the part of the step does not train.

    Raises:
        UnknownName: There is no such model.
        PluginError: The model's plugin cannot be loaded, or a package of the worker half is not installed as Python
            files.
    """
    reference_case = reference_case or reference_case_of(plan.spec)
    reference = _reference(plan, registry, reference_case)
    if isinstance(reference, _Obstacle):
        return _make_parity_without_trajectory(reference.outcome, reference_case, reference.detail)
    of_case = reference.cases[reference_case]
    possible = expected_trajectories(of_case, plan.spec.executed.strategy, plan.spec.topology.devices)
    if isinstance(possible, Comparison):
        return _make_parity_without_trajectory(possible.outcome, reference_case, possible.detail)
    try:
        own_plan = _plan(plan, registry, reference, reference_case)
    except DlperfError as error:
        reason = f"The reference's case {reference_case!r} cannot be run here: {error}"
        return _make_parity_without_trajectory(INCONCLUSIVE, reference_case, reason)
    request = _request(own_plan, environment, variables)
    key = key_of(own_plan, request, environment, reference.digest)
    run = ParityRun(plan, own_plan, request, reference, reference_case, key)
    cached = cache.fetch(key) if use_cache else None
    if cached is None:
        on_progress(
            f"case {reference_case}: {of_case.steps} steps on {plan.spec.topology}, compared with float64"
        )
        return run
    comparison = _compare_records(run, cached.records)
    if comparison.outcome == FAIL:  # failures are not cached: the entry is damaged or forged
        on_progress(
            f"case {reference_case}: the evidence of {cached.made_at} in the cache fails; measuring again"
        )
        return run
    on_progress(f"case {reference_case}: evidence of a run of {cached.made_at}, from the cache")
    return _make_parity(comparison, cached.records, run, cached.made_at)


def follow_parity_run(run: ParityRun, events: Generator[Mapping[str, Any], None, None]) -> Parity:
    """Read the events of a parity run that was launched on its own, and return its evidence.

    At the end, `events` is closed. The evidence is stored in the cache if `run.cacheable` is True and the outcome is
    not `fail`.

    Args:
        run: The run.
        events: The events of the run's launch, as dicts, up to the event `ended`.

    Returns:
        The evidence: the outcome of the comparison with the reference, or `fail` if a worker crashed, exceeded a
        deadline or wrote an invalid record.

    Raises:
        RunFailed: The run ended for a reason that ends the case as well, such as `out-of-memory`, `unavailable` or
            `interrupted`: any kind of failure but `crashed`, `timeout` and `invalid-record`.
    """
    attempt: dict[str, Any] = {}
    logs: list[Mapping[str, Any]] = []
    try:
        with closing(events) as stream:
            for event in stream:
                if event["event"] == "attempt-ended":
                    attempt = {**event}
                elif event["event"] == "log" and event.get("name") == _failed_log(attempt):
                    logs = [*logs[-1:], event]  # its last two pieces have the tail
                elif event["event"] == "ended" and event.get("failure") is not None:
                    attempt["failure"] = event["failure"]
    except RunFailed as error:
        if error.kind not in OWN_PREFIX:
            raise
        return _make_failed_parity(run, error.failure or Failure(error.kind, str(error)), None)
    return evaluate_parity(run, {**attempt, "logs": logs})


def evaluate_parity(run: ParityRun, attempt: Mapping[str, Any]) -> Parity:
    """Return the evidence of a finished attempt of a parity run.

    The evidence is stored in the cache if `run.cacheable` is True and the outcome is not `fail`.

    Args:
        run: The run.
        attempt: The event `attempt-ended`: its `records` or `failure`, and the workers' log events under `logs`.

    Returns:
        The evidence: the outcome of the comparison with the reference, or `fail` if a worker crashed, exceeded a
        deadline or wrote an invalid record.

    Raises:
        RunFailed: The attempt failed for a reason that ends the case as well, such as `out-of-memory` or
            `unavailable`: any kind of failure but `crashed`, `timeout` and `invalid-record`.
    """
    logs = attempt.get("logs") or []
    try:
        if attempt.get("failure") is not None:
            failure = _failure(attempt["failure"])
            return _make_failed_parity(run, failure, failure.traceback or _tail(logs, failure.rank))
        documents = attempt.get("records") or []
        if not isinstance(documents, list):
            raise DocumentError("malformed event from node 0: `records` must be a list")
        if not documents:
            raise DocumentError("the run succeeded, but returned no record")
        records = records_from(documents)
    except DocumentError as error:
        detail = f"A worker's parity record breaks the protocol: {error}"
        return _make_parity_without_trajectory(FAIL, run.reference_case, detail)
    comparison, made_at = _compare_records(run, records), now()
    if run.cacheable and comparison.outcome != FAIL:
        cache.store(run.key, documents, made_at)
    return _make_parity(comparison, records, run, made_at)


def make_unknown_parity(spec: RunSpec, detail: str) -> Parity:
    """Return a `Parity` of a spec with the outcome `inconclusive`; `detail` says why it has no evidence."""
    return _make_parity_without_trajectory(INCONCLUSIVE, reference_case_of(spec), detail)


def _compare_records(run: ParityRun, records: Sequence[ParityRecord]) -> Comparison:
    spec = run.case_plan.spec.executed
    tolerance = run.reference.tolerances[spec.precision]
    of_case = run.reference.cases[run.reference_case]
    return compare(records, of_case, tolerance, spec.strategy, spec.topology.devices)


def describe_parity_run(plan: Plan, registry: Registry) -> str:
    """Return a phrase about the parity run of a case, or `none: ` and the reason why it has none. Nothing is started.

    The phrase has the case of the reference, its number of steps, and its samples per device.

    Args:
        plan: The plan of the case.
        registry: The plugins.

    Raises:
        UnknownName: There is no such model.
        PluginError: The model's plugin cannot be loaded.
    """
    name = reference_case_of(plan.spec)
    reference = _reference(plan, registry, name)
    if isinstance(reference, _Obstacle):
        return f"none: {reference.detail}"
    of_case, replicas = reference.cases[name], plan.spec.topology.devices
    possible = expected_trajectories(of_case, plan.spec.executed.strategy, replicas)
    if isinstance(possible, Comparison):
        return f"none: {possible.detail}"
    return (
        f"a separate run before the first repeat, or a cached one: case {name}, {of_case.steps} steps of "
        f"{of_case.batch_size} samples per device, compared with float64"
    )


@frozen
class _Obstacle:
    """The outcome of parity without a run, and its reason."""

    detail: str
    outcome: str = INCONCLUSIVE


def _reference(plan: Plan, registry: Registry, case: str) -> Reference | _Obstacle:
    """Return the model's reference if it serves this case and precision, or the reason it does not."""
    part = PARTS[plan.spec.part]
    if "parity" in part.inapplicable:
        return _Obstacle(part.explain_not_applicable("parity"), NOT_APPLICABLE)
    model, precision = registry.model(plan.spec.model), plan.spec.precision
    if model.references is None:
        reason = "ships no reference trajectories (Model.references) to compare with."
        return _Obstacle(f"{model.name} {reason}")
    try:
        reference = load(model.references)
    except DocumentError as error:
        return _Obstacle(f"The reference of {model.name} cannot be used: {error}")
    if case not in reference.cases:
        known = ", ".join(reference.cases) or "none"
        return _Obstacle(f"The reference of {model.name} has no case {case!r}; it has: {known}.")
    if precision not in reference.tolerances:
        return _Obstacle(f"The reference of {model.name} has no tolerance for {precision}.")
    return reference


def _plan(plan: Plan, registry: Registry, reference: Reference, case: str) -> Plan:
    """Return the plan of the parity run: the case's model, batch and seed; all else as in the measurement."""
    of_case, spec = reference.cases[case], plan.spec
    names = {*plan.framework_options, *attrs.asdict(plan.topology_options)}
    model_options = {name: value for name, value in spec.options.items() if name in names}
    changes: dict[str, Any] = {
        "batch_size": of_case.batch_size,
        "accumulation": _accumulation(spec.accumulation, of_case),
        "device": plan.device,
        "data": DataSpec(DATA_SOURCES.default),
        "learning_rate_policy": of_case.learning_rate_policy,
        "seed": of_case.seed,
        "protocol": "quick",
        "canonical_steps": of_case.steps,
        "warmup": 0,
        "steps": 1,
        "repeats": 1,
        "max_repeats": None,
        "target": None,
        "options": {**of_case.options, **model_options},
    }
    return make_plan(attrs.evolve(spec, **changes), registry)


def _accumulation(requested: int, case: ReferenceCase) -> int:
    """Return the largest part of the requested micro-batches that keeps the trajectory.

    The mean over equal parts is the mean over all, but for batch norm, which sees each part alone.
    """
    return 1 if case.alone[0].running_means else math.gcd(requested, case.batch_size)


def _request(plan: Plan, prepared: PreparedEnvironment, variables: Mapping[str, str | None]) -> Request:
    """Return the nodes' request for the parity program; it has no samplers, since nothing is timed."""
    run_id = f"parity-{secrets.token_hex(6)}"
    request = plan.request(run_id, prepared.command, variables, {"source": DATA_SOURCES.default})
    return request._replace(program="parity", samplers=[])


def _failure(plain: Mapping[str, Any]) -> Failure:
    """Return the failure of a parity run that is its verdict, and raise any other.

    Raises:
        RunFailed: It ends the case as well.
    """
    try:
        failure = failure_from(plain)
    except (KeyError, TypeError, AttributeError) as error:
        return Failure("invalid-record", f"malformed failure from node 0: {error!r}")
    if failure.kind not in OWN_PREFIX:
        message = f"In the parity run: {failure.message}"
        raise FAILURES[failure.kind](message, failure=attrs.evolve(failure, message=message))
    return failure


def _make_failed_parity(run: ParityRun, failure: Failure, traceback: str | None) -> Parity:
    """Return the evidence of a run that failed."""
    known = {"node": failure.node, "rank": failure.rank, "phase": failure.phase}
    location = "".join(f", {name} {value}" for name, value in known.items() if value is not None)
    detail = f"The parity run failed ({failure.kind}{location}): {failure.message}"
    return attrs.evolve(
        _make_parity_without_trajectory(FAIL, run.reference_case, detail), traceback=traceback
    )


def _failed_log(attempt: Mapping[str, Any]) -> str | None:
    """Return the name of the log of the rank that failed; None if none has."""
    failure = attempt.get("failure")
    return f"rank-{failure.get('rank')}" if isinstance(failure, Mapping) else None


def _tail(logs: Sequence[Any], rank: int | None) -> str | None:
    """Return the end of the log of a rank."""
    text = "".join(str(log.get("text", "")) for log in logs if log.get("name") == f"rank-{rank}")
    return text[-TAIL:].strip() or None


def _make_parity_without_trajectory(outcome: str, case: str, detail: str) -> Parity:
    """Return evidence without a trajectory."""
    if outcome == INCONCLUSIVE:
        detail = f"The model is unverified. {detail}"
    return Parity(outcome=outcome, detail=detail, case=case)


def _make_parity(
    comparison: Comparison, records: Sequence[ParityRecord], run: ParityRun, made_at: str
) -> Parity:
    plan, case = run.case_plan, run.reference_case
    followers = sorted(
        (replica for record in records for replica in record.replicas), key=lambda replica: replica.index
    )
    accumulated = (
        " Parity was run without accumulation, and does not vouch for it."
        if plan.spec.accumulation > 1 and run.plan.spec.accumulation == 1
        else ""
    )
    return Parity(
        outcome=comparison.outcome,
        detail=f"Case {case}, {plan.spec.topology}: {comparison.detail}{accumulated}",
        case=case,
        losses=tuple(replica.losses for replica in followers),
        deviations=comparison.losses,
        updates=comparison.updates,
        differing=comparison.differing,
        follows=comparison.follows,
        reference=run.reference.digest,
        key=run.key,
        made_at=made_at,
    )
