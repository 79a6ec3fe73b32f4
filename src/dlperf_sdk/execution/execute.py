"""One case from its spec to its result: the flow of the whole project.

RunSpec → plan → environment, data, parity → bundle → launch → records → result

`execute` carries a case out in one go. A campaign carries many out together, an attempt of one and then of another;
so each part of the way is a verb of its own: `begin`, `prepare`, `measure`, `conclude`.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs
from attrs import define

from dlperf_sdk import environments, hookspecs
from dlperf_sdk.documents.json_values import now
from dlperf_sdk.errors import RunFailed, StoreError
from dlperf_sdk.execution import tracing
from dlperf_sdk.execution.launch import launched
from dlperf_sdk.execution.prepare import Ready, made_ready
from dlperf_sdk.execution.recorder import Collector
from dlperf_sdk.execution.summarize import summarise
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.interfaces.measurer import Measurer
from dlperf_sdk.parity.evidence import CASE, Asked, asked, evidence, judged, on_its_own
from dlperf_sdk.planning.plan import Plan, make_plan
from dlperf_sdk.registry.plugins import Registry
from dlperf_sdk.results import metrics
from dlperf_sdk.results.records import Failure
from dlperf_sdk.results.result import Environment, Parity, Result, Stopping
from dlperf_sdk.results.store import ResultStore, new_run_id
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.worker.agent.stopping import decide


@define
class Case:
    """One case on its way: what was asked, what follows from it, and what has come of it so far."""

    id: str
    spec: RunSpec
    registry: Registry
    measurers: tuple[Measurer, ...]
    plan: Plan | None
    """None where it was refused."""
    collected: Collector
    started_at: str
    ready: Ready | None = None
    """What it is launched with, once that has been made ready."""
    parity: Parity | None = None
    """Whether it trains the very model."""
    parity_run: Asked | None = None
    """What is yet to be run to tell: the first launch does it, before anything is measured."""


def execute(
    spec: RunSpec,
    *,
    store: ResultStore | str | Path | None,
    observers: Iterable[Any],
    registry: Registry | None,
    raise_on_failure: bool,
    like: Environment | None = None,
    refusal: Failure | None = None,
    notes: Iterable[str] = (),
    with_trace: bool = False,
) -> Result:
    """Run a spec, in its own environment or in one `like` another result's; see `dlperf_sdk.api.run`.

    Once something has been started, a store that fails is the case's failure: what was measured is still handed back.

    `refusal` is why it cannot be run, where that was found beforehand, and `notes` what else was. `with_trace` takes an
    extra attempt under the framework's profiler.
    """
    told = Observers(hookspecs.listeners(observers))
    case = begin(spec, store, told, registry or Registry())
    case.collected.failure = case.collected.failure or refusal
    case.collected.notes += notes
    interrupted = False
    try:
        prepare(case, like)
        measure(case)
        if with_trace:
            trace(case)
    except KeyboardInterrupt:
        interrupted = True
    except StoreError as error:
        _not_kept(case, error)
    try:
        result = conclude(case)
    except StoreError as error:
        _not_kept(case, error)
        case.collected.directory = None
        result = conclude(case)  # handed back, and told, all the same
    if interrupted:
        raise KeyboardInterrupt
    return result.raise_for_status() if raise_on_failure else result


def begin(
    spec: RunSpec,
    store: ResultStore | str | Path | None,
    observers: Observers,
    registry: Registry,
    *,
    run_id: str | None = None,
    started_at: str | None = None,
) -> Case:
    """Plan a case, make its directory, and write down there what was asked for. Nothing is started.

    A case that has been begun before is gone on with under its `run_id`: what it has finished is read back.

    Raises:
        UsageError, PluginError: it cannot be understood, or the store cannot be written.
    """
    measurers = tuple(registry.measurers())
    planned, refusal = _planned(spec, registry)
    id = run_id or new_run_id(spec, datetime.now(UTC))
    collected = Collector(id, observers, None, failure=refusal)
    if store is not None:
        kept = store if isinstance(store, ResultStore) else ResultStore(Path(store))
        if run_id is not None and (kept.directory / run_id).is_dir():
            collected.directory = kept.reopen_run(run_id)
            for attempt in kept.recover(run_id).attempts:
                collected.restore(attempt)
        else:
            collected.directory = kept.open_run(id)
        collected.directory.write_spec(spec)
    return Case(id, spec, registry, measurers, planned, collected, started_at or now())


def prepare(case: Case, like: Environment | None = None, held_to: str = CASE) -> None:
    """Make it ready, and see whether it trains the very model, by the case `held_to` of the model's reference.

    A failure is collected, and the case is over.

    Raises:
        StoreError: what was found cannot be written.
    """
    make_ready(case, like)
    if case.ready is not None:
        with case.collected.failures():
            _follow_reference(case, case.ready, held_to)


def make_ready(case: Case, like: Environment | None = None) -> None:
    """Make ready what it runs in and what it trains on. A failure is collected, and the case is over."""
    if case.plan is not None and case.collected.failure is None:
        with case.collected.failures():
            case.ready = made_ready(case.plan, like, case.collected)


def measure(case: Case, attempt: int | None = None, until: float | None = None) -> None:
    """Take all of the protocol's repeats, or only one, under the number `attempt`; its repeats are new processes.

    `until` is a time on the monotonic clock after which it is ended, and has failed with a timeout. Everything that
    comes of it is collected, a failure too; on an interruption all processes have ended.

    Raises:
        KeyboardInterrupt: as it was; what had finished is kept.
        StoreError: what came of it cannot be written; all processes have ended.
    """
    ready = case.ready
    if ready is not None and case.collected.failure is None:
        with case.collected.failures(), environments.in_use(ready.prepared):
            _launch(case, ready, attempt, until)


def trace(case: Case) -> None:
    """An extra attempt under the framework's profiler, kept beside the measured ones and part of no figure.

    That it fails is a note: the case has been measured.

    Raises:
        KeyboardInterrupt: as it was.
    """
    directory, ready = case.collected.directory, case.ready
    if directory is None or ready is None or case.collected.failure is not None:
        return
    case.collected.stage("trace")(f"{tracing.STEPS} steps in processes of their own")
    try:
        with environments.in_use(ready.prepared):
            found = tracing.traces(
                launched(ready.plan, tracing.traced(ready.request(case.id)), case.registry)
            )
        paths = [
            directory.write_trace(rank, packed).relative_to(directory.path)
            for rank, packed in sorted(found.items())
        ]
    except RunFailed as error:
        case.collected.notes.append(f"There is no trace ({error.kind}): {error}")
        return
    except StoreError as error:
        case.collected.notes.append(f"There is no trace: {error}")
        return
    case.collected.notes.append(f"Traced apart from what was measured: {', '.join(map(str, paths))}")


def enough(case: Case) -> bool:
    """Whether the repeats so far satisfy the protocol's rule; which, and how, is noted for the result."""
    protocol = attrs.asdict(case.spec.resolved_protocol())
    decision = decide([metrics.throughput(repeat) for repeat in case.collected.repeats], protocol)
    if decision.stop:
        rule = "fixed" if protocol["target"] is None else "adaptive"
        case.collected.stopping = Stopping(rule, decision.met, decision.detail)
    return decision.stop


def conclude(case: Case) -> Result:
    """The result of everything that has been collected; with a store it is written.

    Raises:
        StoreError: it cannot be, and no observer has been told.
    """
    collected = case.collected
    result = summarise(
        run_id=case.id,
        spec=case.spec,
        plan=case.plan,
        environment=collected.environment,
        repeats=collected.repeats,
        hardware=collected.hardware,
        failure=collected.failure,
        stopping=collected.stopping,
        notes=collected.notes,
        measurers=case.measurers,
        started_at=case.started_at,
        finished_at=now(),
        parity=case.parity,
    )
    if collected.directory is not None:
        collected.directory.write_result(result)
    if result.failure is not None:
        collected.observers.tell("dlperf_error", run_id=case.id, failure=result.failure)
    collected.observers.tell("dlperf_result", run_id=case.id, result=result)
    return result


def _planned(spec: RunSpec, registry: Registry) -> tuple[Plan | None, Failure | None]:
    """The plan, or why the case was refused. What cannot even be understood raises."""
    try:
        return make_plan(spec, registry), None
    except RunFailed as error:
        return None, Failure(error.kind, str(error))


def _not_kept(case: Case, error: StoreError) -> None:
    """The store has failed in the middle: a failure of the case, or a note beside the one that it has."""
    directory = case.collected.directory
    what = str(error) if directory is None else str(error).replace(f"{directory.path}/", "")
    said = f"The store failed in the middle of the run: {what} What had been written before is kept."
    if case.collected.failure is None:
        case.collected.failure = Failure("unavailable", said)
    elif case.collected.failure.message != said:
        case.collected.notes.append(said)


def _follow_reference(case: Case, ready: Ready, held_to: str) -> None:
    """Parity, from a short run of its own, or from what an earlier one left; that it fails stops no measurement.

    Where launches have to wait for their turn it is a part of the first one.
    """
    say, registry = case.collected.stage("parity"), case.registry
    with environments.in_use(ready.prepared):
        if not registry.topology(case.spec.topology.launcher).queues():
            case.parity = evidence(
                ready.plan,
                ready.prepared,
                ready.variables,
                registry,
                lambda plan, request: launched(plan, request._replace(id=f"parity-{case.id}"), registry),
                say,
                case=held_to,
            )
            return
        found = asked(ready.plan, ready.prepared, ready.variables, registry, say, case=held_to)
    case.parity, case.parity_run = (found, None) if isinstance(found, Parity) else (None, found)


def _launch(case: Case, ready: Ready, attempt: int | None, until: float | None) -> None:
    """Start the agents, and take what they tell until they have ended."""
    parity, case.parity_run = case.parity_run, None
    stream = launched(
        ready.plan,
        ready.request(case.id, attempt),
        case.registry,
        until,
        case.collected.stage,
        parity or case.parity,
    )
    with closing(stream):
        for event in stream:
            if event["event"] == "parity-ended" and parity is not None:
                case.parity = judged(parity, on_its_own(event))
            else:
                case.collected.take(event)
