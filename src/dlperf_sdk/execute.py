"""One case from its spec to its result: the flow of the whole project.

RunSpec → plan → environment, data, bundle → launch → records → result
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dlperf_sdk import bundle, data, environments, hookspecs
from dlperf_sdk.collect import Collector
from dlperf_sdk.environments import PreparedEnvironment
from dlperf_sdk.errors import RunFailed
from dlperf_sdk.hookspecs import Observers
from dlperf_sdk.interfaces.topology import Job
from dlperf_sdk.launch import events
from dlperf_sdk.plan import Plan, make_plan
from dlperf_sdk.records import Failure
from dlperf_sdk.registry import Registry
from dlperf_sdk.results.result import Environment, Result
from dlperf_sdk.results.store import ResultStore, RunDirectory, new_run_id
from dlperf_sdk.results.summarise import summarise
from dlperf_sdk.spec import RunSpec
from dlperf_sdk.worker.request import Request


def execute(
    spec: RunSpec,
    like: Environment | None,
    store: ResultStore | str | Path | None,
    observers: Iterable[Any],
    registry: Registry | None,
    raise_on_failure: bool,
) -> Result:
    """Run a spec, in its own environment or in one `like` another result's; see `dlperf_sdk.api.run`."""
    registry = registry or Registry()
    told = Observers(hookspecs.listeners(observers))
    measurers = registry.measurers()
    started, run_id = _now(), new_run_id(spec, datetime.now(UTC))
    planned, refusal = _planned(spec, registry)
    collected = Collector(run_id, told, _open(store, run_id), failure=refusal)
    interrupted = planned is not None and _carry_out(planned, like, registry, collected)
    result = summarise(
        run_id=run_id,
        spec=spec,
        plan=planned,
        environment=collected.environment,
        repeats=collected.repeats,
        hardware=collected.hardware,
        failure=collected.failure,
        stopping=collected.stopping,
        notes=collected.notes,
        measurers=measurers,
        started_at=started,
        finished_at=_now(),
    )
    if collected.directory is not None:
        collected.directory.write_result(result)
    if result.failure is not None:
        told.tell("dlperf_error", run_id=run_id, failure=result.failure)
    told.tell("dlperf_result", run_id=run_id, result=result)
    if interrupted:
        raise KeyboardInterrupt
    return result.raise_for_status() if raise_on_failure else result


def _planned(spec: RunSpec, registry: Registry) -> tuple[Plan | None, Failure | None]:
    """The plan, or why the case was refused. What cannot even be understood raises."""
    try:
        return make_plan(spec, registry), None
    except RunFailed as error:
        return None, Failure(error.kind, str(error))


def _carry_out(planned: Plan, like: Environment | None, registry: Registry, collected: Collector) -> bool:
    """Do what is planned; everything that comes of it is collected. The value says whether it was interrupted."""
    try:
        _begin(planned, collected)
        prepared = _prepare(planned, like, collected)
        with environments.in_use(prepared):
            _launch(planned, _request(planned, prepared, collected), registry, collected)
    except RunFailed as error:
        collected.failure = Failure(error.kind, str(error))
    except KeyboardInterrupt:
        said = "The run was interrupted; the repeats that had finished are kept."
        collected.failure = Failure("interrupted", said)
        return True
    return False


def _begin(planned: Plan, collected: Collector) -> None:
    directory = collected.directory
    if directory is not None:
        directory.write_spec(planned.spec)
        directory.write_plan(planned.to_dict())
    place = None if directory is None else str(directory.path)
    collected.observers.tell("dlperf_run_started", run_id=collected.run_id, plan=planned, directory=place)


def _prepare(planned: Plan, like: Environment | None, collected: Collector) -> PreparedEnvironment:
    """The environment to run in: the framework's own, or one like another result's."""
    spec, say = planned.spec, _stage(collected, "environment")
    if like is None:
        prepared = environments.prepare(
            spec.framework,
            planned.environment,
            planned.device,
            python=spec.python,
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


def _variables(spec: RunSpec) -> dict[str, str]:
    """The requested variables as the workers get them; one that this shell has not got is not handed on."""
    found = {name: os.environ.get(name) if value is None else value for name, value in spec.env.items()}
    return {name: value for name, value in found.items() if value is not None}


def _request(planned: Plan, prepared: PreparedEnvironment, collected: Collector) -> Request:
    """What the nodes are told. Its data is made ready here: never inside the window."""
    say = _stage(collected, "data")
    samples = data.prepare(
        planned.spec.data,
        planned.model_options,
        planned.inputs,
        seed=planned.spec.seed,
        on_progress=lambda what, done, total: say(f"{what} {done}/{total}"),
    )
    return planned.request(collected.run_id, prepared.command, planned.spec.env, samples)


def _launch(planned: Plan, request: Request, registry: Registry, collected: Collector) -> None:
    """Pack the bundle, start the agents, and take what they tell until they have ended."""
    shape = planned.spec.topology
    with tempfile.TemporaryDirectory(prefix="dlperf-") as scratch:
        packed = bundle.build(request, Path(scratch) / f"{request.id}.pyz", planned.packages)
        _stage(collected, "bundle")(f"{len(packed.files)} files, SHA-256 {packed.digest}")
        job = Job(request.id, packed.path, shape.nodes, shape.devices_per_node, planned.device, {})
        agents = "1 agent" if shape.nodes == 1 else f"{shape.nodes} agents"
        _stage(collected, "launch")(f"{agents}, placed by {shape.engine}")
        with closing(events(registry.topology(shape.engine), job)) as stream:
            for event in stream:
                collected.take(event)


def _stage(collected: Collector, stage: str) -> Callable[[str], None]:
    return lambda text: collected.observers.tell(
        "dlperf_stage", run_id=collected.run_id, stage=stage, detail=text
    )


def _open(store: ResultStore | str | Path | None, run_id: str) -> RunDirectory | None:
    if store is None:
        return None
    return (store if isinstance(store, ResultStore) else ResultStore(Path(store))).open_run(run_id)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
