"""One case from its spec to its result: the flow of the whole project.

RunSpec → plan → environment, data, parity → bundle → launch → records → result

`execute` carries a case out in one go. A campaign carries many out together, an attempt of one and then of another;
so each part of the way is a verb of its own: `begin`, `prepare`, `measure`, `conclude`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import attrs
from attrs import define

from dlperf_sdk import bundle, data, environments, hookspecs, metrics, tracing
from dlperf_sdk.collect import Collector
from dlperf_sdk.environments import PreparedEnvironment
from dlperf_sdk.environments.container import prefix
from dlperf_sdk.errors import RunFailed
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.interfaces.measurer import Measurer
from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.launch import events
from dlperf_sdk.parity.evidence import Asked, asked, evidence, judged, on_its_own
from dlperf_sdk.plan import Plan, make_plan
from dlperf_sdk.records import Failure
from dlperf_sdk.registry import Registry
from dlperf_sdk.results.convert import to_plain
from dlperf_sdk.results.result import Environment, Parity, Result, Stopping
from dlperf_sdk.results.store import ResultStore, new_run_id
from dlperf_sdk.results.summarise import summarise
from dlperf_sdk.spec import RunSpec
from dlperf_sdk.worker.request import Request
from dlperf_sdk.worker.scratch import scratch as scratch_directory
from dlperf_sdk.worker.stopping import decide


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
    prepared: PreparedEnvironment | None = None
    samples: Mapping[str, Any] | None = None
    """What the preparation of its data found."""
    parity: Parity | None = None
    """Whether it trains the very model."""
    parity_run: Asked | None = None
    """What is yet to be run to tell: the first launch does it, before anything is measured."""


def execute(
    spec: RunSpec,
    like: Environment | None,
    store: ResultStore | str | Path | None,
    observers: Iterable[Any],
    registry: Registry | None,
    raise_on_failure: bool,
    refusal: Failure | None = None,
    notes: Iterable[str] = (),
    with_trace: bool = False,
) -> Result:
    """Run a spec, in its own environment or in one `like` another result's; see `dlperf_sdk.api.run`.

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
    result = conclude(case)
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
    """Plan a case and make its directory. Nothing is started.

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
    return Case(id, spec, registry, measurers, planned, collected, started_at or _now())


def prepare(case: Case, like: Environment | None = None) -> None:
    """Make it ready, and see whether it trains the very model. A failure is collected, and the case is over."""
    make_ready(case, like)
    if case.plan is None or case.prepared is None or case.collected.failure is not None:
        return
    with _failures_of(case):
        _follow_reference(case, case.plan, case.prepared)


def make_ready(case: Case, like: Environment | None = None) -> None:
    """Make ready what it runs in and what it trains on. A failure is collected, and the case is over."""
    if case.plan is None or case.collected.failure is not None:
        return
    with _failures_of(case):
        _announce(case.plan, case.collected)
        case.prepared = _environment(case.plan, like, case.collected)
        case.samples = _data(case.plan, case.collected)


def measure(case: Case, attempt: int | None = None, until: float | None = None) -> None:
    """Take all of the protocol's repeats, or only one, under the number `attempt`; its repeats are new processes.

    `until` is a time on the monotonic clock after which it is ended, and has failed with a timeout. Everything that
    comes of it is collected, a failure too; on an interruption all processes have ended.

    Raises:
        KeyboardInterrupt: as it was; what had finished is kept.
    """
    if case.plan is None or case.prepared is None or case.collected.failure is not None:
        return
    with _failures_of(case), environments.in_use(case.prepared):
        _launch(case, case.plan, _request(case, attempt), until)


def trace(case: Case) -> None:
    """An extra attempt under the framework's profiler, kept beside the measured ones and part of no figure.

    That it fails is a note: the case has been measured.

    Raises:
        KeyboardInterrupt: as it was.
    """
    directory = case.collected.directory
    if case.plan is None or case.prepared is None or case.collected.failure is not None or directory is None:
        return
    _stage(case.collected, "trace")(f"{tracing.STEPS} steps in processes of their own")
    try:
        with environments.in_use(case.prepared):
            found = tracing.traces(launched(case.plan, tracing.traced(_request(case, None)), case.registry))
    except RunFailed as error:
        case.collected.notes.append(f"There is no trace ({error.kind}): {error}")
        return
    paths = [directory.write_trace(rank, packed) for rank, packed in sorted(found.items())]
    case.collected.notes.append(f"Traced apart from what was measured: {', '.join(map(str, paths))}")


def enough(case: Case) -> bool:
    """Whether the repeats so far satisfy the protocol's rule; which, and how, is noted for the result."""
    assert case.plan is not None
    protocol = attrs.asdict(case.plan.protocol)
    decision = decide([metrics.throughput(repeat) for repeat in case.collected.repeats], protocol)
    if decision.stop:
        rule = "fixed" if protocol["target"] is None else "adaptive"
        case.collected.stopping = Stopping(rule, decision.met, decision.detail)
    return decision.stop


def conclude(case: Case) -> Result:
    """The result of everything that has been collected; with a store it is written."""
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
        finished_at=_now(),
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


@contextmanager
def _failures_of(case: Case) -> Iterator[None]:
    """What fails inside is collected as the case's failure."""
    try:
        yield
    except RunFailed as error:
        case.collected.failure = Failure(error.kind, str(error))
    except KeyboardInterrupt:
        said = "The run was interrupted; the repeats that had finished are kept."
        case.collected.failure = Failure("interrupted", said)
        raise


def _announce(planned: Plan, collected: Collector) -> None:
    directory = collected.directory
    if directory is not None:
        directory.write_spec(planned.spec)
        directory.write_plan(planned.to_dict())
    place = None if directory is None else str(directory.path)
    collected.observers.tell("dlperf_run_started", run_id=collected.run_id, plan=planned, directory=place)


def _environment(planned: Plan, like: Environment | None, collected: Collector) -> PreparedEnvironment:
    """The environment to run in: the framework's own, or one like another result's."""
    spec, say = planned.spec, _stage(collected, "environment")
    if like is None or spec.container:  # a container is named anew, not rebuilt
        prepared = environments.prepare(
            spec.framework,
            planned.environment,
            planned.device,
            python=spec.python,
            inside=_inside(planned),
            env=spec.env,
            on_progress=say,
        )
    else:
        prepared = environments.from_lock(
            spec.framework,
            planned.device,
            like.python,
            like.lock,
            asked=planned.environment.requirements,
            uv_options=planned.environment.uv_options,
            on_progress=say,
        )
    collected.environment = Environment(
        kind=prepared.kind,
        python=prepared.python,
        lock=prepared.lock,
        command=prepared.command,
        variables=_variables(spec),
        plugin=planned.plugin,
    )
    if collected.directory is not None:
        collected.directory.write_environment(collected.environment)
    return prepared


def _inside(planned: Plan) -> tuple[str, ...]:
    """What runs agents and workers in the spec's container; nothing where it names none."""
    spec = planned.spec
    return prefix(spec.container, spec.container_mounts, planned.device) if spec.container else ()


def _variables(spec: RunSpec) -> dict[str, str]:
    """The requested variables as the workers get them; one that this shell has not got is not handed on."""
    found = {name: os.environ.get(name) if value is None else value for name, value in spec.env.items()}
    return {name: value for name, value in found.items() if value is not None}


def _data(planned: Plan, collected: Collector) -> Mapping[str, Any]:
    """The data is made ready here: never inside the window."""
    say = _stage(collected, "data")
    return data.prepare(
        planned.spec.data,
        planned.model_options,
        planned.inputs,
        seed=planned.spec.seed,
        on_progress=lambda what, done, total: say(f"{what} {done}/{total}"),
    )


def _request(case: Case, attempt: int | None) -> Request:
    """What the nodes are told."""
    assert case.plan is not None and case.prepared is not None and case.samples is not None
    request = case.plan.request(case.id, case.prepared.command, _variables(case.spec), case.samples)
    if attempt is None:
        return request
    once = {**request.protocol, "repeats": 1, "max_repeats": 1, "target": None}
    return dataclasses.replace(request, first_attempt=attempt, protocol=once)


def _follow_reference(case: Case, planned: Plan, prepared: PreparedEnvironment) -> None:
    """Parity, from a short run of its own, or from what an earlier one left; that it fails stops no measurement.

    Where launches have to wait for their turn it is a part of the first one.
    """
    say, registry = _stage(case.collected, "parity"), case.registry
    with environments.in_use(prepared):
        if not registry.topology(planned.spec.topology.engine).queues():
            case.parity = evidence(
                planned, prepared, registry, lambda plan, request: launched(plan, request, registry), say
            )
            return
        found = asked(planned, prepared, registry, say)
    case.parity, case.parity_run = (found, None) if isinstance(found, Parity) else (None, found)


def _launch(case: Case, planned: Plan, request: Request, until: float | None) -> None:
    """Start the agents, and take what they tell until they have ended."""
    say, parity = partial(_stage, case.collected), case.parity_run
    case.parity_run = None
    with closing(launched(planned, request, case.registry, until, say, parity or case.parity)) as stream:
        for event in stream:
            if event["event"] == "parity-ended" and parity is not None:
                case.parity = judged(parity, on_its_own(event))
            else:
                case.collected.take(event)


def told(planned: Plan, parity: Parity | None = None) -> dict[str, Any]:
    """What a bundle says of its case, for whoever has only the stream of its run."""
    settled = {} if parity is None else {"parity": to_plain(parity)}
    return {"spec": planned.spec.to_dict(), "plugin": planned.plugin, **settled}


def launched(
    planned: Plan,
    request: Request,
    registry: Registry,
    until: float | None = None,
    say: Callable[[str], Callable[[str], None]] = lambda stage: lambda text: None,
    parity: Asked | Parity | None = None,
) -> Generator[dict[str, Any], None, None]:
    """Pack the bundle, start the agents, and yield what they tell until they have ended; closing it ends them.

    `say` gives, for the name of a stage, what is told how it goes. `parity` is a run that comes first, on the same
    agents, or what is known already.
    """
    shape = planned.spec.topology
    first, known = (parity.request, None) if isinstance(parity, Asked) else (None, parity)
    with scratch_directory() as scratch:
        path = Path(scratch) / f"{request.id}.pyz"
        packed = bundle.build(request, path, planned.packages, told(planned, known), first)
        say("bundle")(f"{len(packed.files)} files, SHA-256 {packed.digest}")
        job = Job(
            id=request.id,
            bundle=packed.path,
            nodes=shape.nodes,
            devices_per_node=shape.devices_per_node,
            device=planned.device,
            variables={},
            options=planned.topology_options,
            prefix=_inside(planned),
            patience=planned.deadlines["start"],
        )
        agents = "1 agent" if shape.nodes == 1 else f"{shape.nodes} agents"
        say("launch")(f"{agents}, placed by {shape.engine}")
        with closing(events(registry.topology(shape.engine), job, until)) as stream:
            yield from stream


def _stage(collected: Collector, stage: str) -> Callable[[str], None]:
    return lambda text: collected.observers.tell(
        "dlperf_stage", run_id=collected.run_id, stage=stage, detail=text
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
