"""Parity evidence for a plan: a short run of its own under the very settings that are measured, or a kept one."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

import attrs
from attrs import frozen

from dlperf_sdk.documents.json_values import now
from dlperf_sdk.environments import PreparedEnvironment
from dlperf_sdk.errors import FAILURES, DlperfError, DocumentError, InvalidRecord, RunFailed
from dlperf_sdk.parity import cache
from dlperf_sdk.parity.compare import Comparison, compare, expected
from dlperf_sdk.parity.key import key_of
from dlperf_sdk.parity.record import ParityRecord, records_from
from dlperf_sdk.parity.reference import Reference, ReferenceCase, load
from dlperf_sdk.planning.plan import Plan, make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results.agent_events import failure_from
from dlperf_sdk.results.records import Failure
from dlperf_sdk.results.result import FAIL, INCONCLUSIVE, Parity
from dlperf_sdk.spec.values import DataSpec
from dlperf_sdk.worker.request import Request

CASE = "small"
"""The case that every ordinary run is held to."""

Launch = Callable[[Plan, Request], Generator[Mapping[str, Any], None, None]]
"""Packs a request, starts the agents, and yields agent 0's events; closing it ends everything."""

OURS = ("crashed", "timeout", "invalid-record", "lost-node")
"""Failures of a parity run that are its verdict. Others (no memory, no device) end the case, as they would anyway."""
TAIL = 4000
"""Characters of a log that are kept where there is no traceback."""


@frozen
class Asked:
    """A parity run that has yet to take place, and what it will be held against."""

    plan: Plan
    """Of the case that it is evidence for."""
    followed: Plan
    """Its own."""
    request: Request
    reference: Reference
    case: str
    key: str


def evidence(
    plan: Plan,
    prepared: PreparedEnvironment,
    variables: Mapping[str, str | None],
    registry: Registry,
    launch: Launch,
    say: Callable[[str], None],
    *,
    case: str = CASE,
    kept: bool = True,
) -> Parity:
    """The evidence for a plan in its environment, with the variables that its workers get; `kept` says whether an
    earlier run's may serve.

    Raises:
        RunFailed: the run ended for a reason that ends the case as well: out of memory, no device, interrupted, …
    """
    found = asked(plan, prepared, variables, registry, say, case=case, kept=kept)
    if isinstance(found, Parity):
        return found
    with closing(launch(found.followed, found.request)) as events:
        return judged(found, events)


def asked(
    plan: Plan,
    prepared: PreparedEnvironment,
    variables: Mapping[str, str | None],
    registry: Registry,
    say: Callable[[str], None],
    *,
    case: str = CASE,
    kept: bool = True,
) -> Asked | Parity:
    """What must be run for the evidence, for `judged`; or the evidence itself, where it is kept or cannot be had."""
    reference, why = _reference(plan, registry, case)
    if reference is None:
        return _without(INCONCLUSIVE, case, why)
    of_case = reference.cases[case]
    possible = expected(of_case, plan.spec.strategy, plan.spec.topology.devices)
    if isinstance(possible, Comparison):
        return _without(possible.outcome, case, possible.detail)
    try:
        followed = _plan(plan, registry, reference, case)
    except DlperfError as error:
        return _without(INCONCLUSIVE, case, f"The reference's case {case!r} cannot be run here: {error}")
    request = _request(followed, prepared, variables)
    found = Asked(
        plan, followed, request, reference, case, key_of(followed, request, prepared, reference.digest)
    )
    before = cache.fetch(found.key) if kept else None
    if before is None:
        say(f"case {case}: {of_case.steps} steps on {plan.spec.topology}, held against float64")
        return found
    say(f"case {case}: what a run of {before.made_at} left is evidence for this one")
    return _with(_compared(found, before.records), before.records, found, before.made_at)


def judged(found: Asked, events: Iterable[Mapping[str, Any]], *, keep: bool = True) -> Parity:
    """The evidence in the events of its run; with `keep` it may serve other runs from here.

    Raises:
        RunFailed: as `evidence` does.
    """
    try:
        documents = _run(events)
        records = records_from(documents)
    except DocumentError as error:
        return _without(FAIL, found.case, f"A worker's parity record breaks the protocol: {error}")
    except _WorkerFailed as failed:
        said = f"The parity run failed ({failed.failure.kind}): {failed.failure.message}"
        return attrs.evolve(_without(FAIL, found.case, said), traceback=failed.said)
    compared, made_at = _compared(found, records), now()
    if keep and compared.outcome != FAIL:
        cache.keep(found.key, documents, made_at)
    return _with(compared, records, found, made_at)


def on_its_own(event: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The event `parity-ended` of a run that came before others, as the events of one by itself."""
    return [{**event, "event": "attempt-ended"}, {"event": "ended", "failure": event.get("failure")}]


def without(detail: str, case: str = CASE) -> Parity:
    """Nobody can tell, and why."""
    return _without(INCONCLUSIVE, case, detail)


def _compared(found: Asked, records: Sequence[ParityRecord]) -> Comparison:
    spec = found.plan.spec
    tolerance = found.reference.tolerances[spec.precision]
    return compare(
        records, found.reference.cases[found.case], tolerance, spec.strategy, spec.topology.devices
    )


def foreseen(plan: Plan, registry: Registry) -> str:
    """What `evidence` would do for a plan, in a sentence; nothing is started."""
    reference, why = _reference(plan, registry, CASE)
    if reference is None:
        return f"none: {why}"
    of_case, replicas = reference.cases[CASE], plan.spec.topology.devices
    possible = expected(of_case, plan.spec.strategy, replicas)
    if isinstance(possible, Comparison):
        return f"none: {possible.detail}"
    return (
        f"before the first repeat, a run of its own, or a kept one: case {CASE}, {of_case.steps} steps of "
        f"{of_case.batch_size} samples per device, held against float64"
    )


def _reference(plan: Plan, registry: Registry, case: str) -> tuple[Reference | None, str]:
    """The model's reference if it serves this case and precision, or why not."""
    model, precision = registry.model(plan.spec.model), plan.spec.precision
    if model.references is None:
        said = "ships no reference trajectories (Model.references), so nothing shows that this is the model."
        return None, f"{model.name} {said}"
    try:
        reference = load(model.references)
    except DocumentError as error:
        return None, f"The reference of {model.name} cannot be used: {error}"
    if case not in reference.cases:
        known = ", ".join(reference.cases) or "none"
        return None, f"The reference of {model.name} has no case {case!r}; it has: {known}."
    if precision not in reference.tolerances:
        return None, f"The reference of {model.name} has no tolerance for {precision}."
    return reference, ""


def _plan(plan: Plan, registry: Registry, reference: Reference, case: str) -> Plan:
    """The plan of the parity run: the case's model, batch and seed; all else as it is measured."""
    of_case, spec = reference.cases[case], plan.spec
    kept = {*plan.framework_options, *attrs.asdict(plan.topology_options)}
    own = {name: value for name, value in spec.options.items() if name in kept}
    changes: dict[str, Any] = {
        "batch_size": of_case.batch_size,
        "accumulation": _accumulation(spec.accumulation, of_case),
        "device": plan.device,
        "data": DataSpec("synthetic"),
        "learning_rate_policy": "constant",
        "seed": of_case.seed,
        "protocol": "quick",
        "canonical_steps": of_case.steps,
        "warmup": 0,
        "steps": 1,
        "repeats": 1,
        "max_repeats": None,
        "target": None,
        "options": {**of_case.options, **own},
    }
    return make_plan(attrs.evolve(spec, **changes), registry)


def _accumulation(asked: int, case: ReferenceCase) -> int:
    """As many micro-batches of those that are asked for as keep the trajectory: the mean over equal parts is the mean
    over all, but for batch norm, which sees each part alone."""
    return 1 if case.alone[0].running_means else math.gcd(asked, case.batch_size)


def _request(plan: Plan, prepared: PreparedEnvironment, variables: Mapping[str, str | None]) -> Request:
    """What the nodes are told; nothing is sampled, since nothing is timed."""
    run_id = f"parity-{secrets.token_hex(6)}"
    request = plan.request(run_id, prepared.command, variables, {"source": "synthetic"})
    return request._replace(program="parity", samplers=[])


def _run(events: Iterable[Mapping[str, Any]]) -> list[Any]:
    """The documents that the trainers left.

    Raises:
        RunFailed: it failed for a reason that ends the case as well.
        _WorkerFailed: it failed for one of `OURS`.
        DocumentError: the agents' stream does not say what came of it.
    """
    documents: list[Any] = []
    logs: list[Any] = []
    try:
        for event in events:
            if event["event"] == "attempt-ended":
                logs = event.get("logs") or []
                documents = event.get("records", []) if event.get("failure") is None else []
                if not isinstance(documents, list):
                    raise DocumentError("The first node's agent told of records that are no list.")
            if event["event"] == "ended" and event.get("failure") is not None:
                raise _failure(event["failure"], logs)
    except RunFailed as error:
        if error.kind in OURS:
            raise _WorkerFailed(Failure(error.kind, str(error)), None) from error
        raise
    if not documents:
        raise DocumentError("The run ended well, but no record has come back.")
    return documents


def _failure(told: Mapping[str, Any], logs: Sequence[Any]) -> Exception:
    """What to raise for a failure that an agent told of."""
    try:
        failure = failure_from(told)
    except (KeyError, TypeError, AttributeError) as error:
        return InvalidRecord(f"The first node's agent told of a failure without saying which: {error}")
    if failure.kind in OURS:
        return _WorkerFailed(failure, failure.traceback or _tail(logs, failure.rank))
    return FAILURES[failure.kind](failure.message)


class _WorkerFailed(Exception):
    """The parity run failed; `said` is the worker's traceback, or the end of its log, where there is one."""

    def __init__(self, failure: Failure, said: str | None) -> None:
        super().__init__(failure.message)
        self.failure, self.said = failure, said


def _tail(logs: Sequence[Any], rank: int | None) -> str | None:
    """The end of the log of a rank."""
    texts = [str(log.get("text", "")) for log in logs if log.get("name") == f"rank-{rank}"]
    return texts[0][-TAIL:].strip() or None if texts else None


def _without(outcome: str, case: str, detail: str) -> Parity:
    """Evidence without a trajectory."""
    return Parity(outcome=outcome, detail=detail, case=case)


def _with(compared: Comparison, records: Sequence[ParityRecord], found: Asked, made_at: str) -> Parity:
    plan, case = found.plan, found.case
    followers = sorted((one for record in records for one in record.replicas), key=lambda one: one.index)
    accumulated = (
        " Parity was run without accumulation, and does not vouch for it."
        if plan.spec.accumulation > 1 and found.followed.spec.accumulation == 1
        else ""
    )
    return Parity(
        outcome=compared.outcome,
        detail=f"Case {case}, {plan.spec.topology}: {compared.detail}{accumulated}",
        case=case,
        losses=tuple(one.losses for one in followers),
        deviations=compared.losses,
        updates=compared.updates,
        differing=compared.differing,
        follows=compared.follows,
        reference=found.reference.digest,
        key=found.key,
        made_at=made_at,
    )
