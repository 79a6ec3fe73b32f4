"""The front door: `run` reads as the flow of the whole project.

RunSpec → plan → environment, data, bundle → launch → records → result
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from dlperf_sdk import bundle, data, environments, hookspecs
from dlperf_sdk.collect import Collector
from dlperf_sdk.environments import PreparedEnvironment
from dlperf_sdk.errors import RunFailed, UnknownName, UsageError
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

DEFAULT_STORE = Path("dlperf-results")
"""Where results are kept unless somebody says otherwise: a directory per run, in the working directory."""


def run(
    what: str | RunSpec | Mapping[str, Any] | Path,
    model: str | None = None,
    *,
    store: ResultStore | str | Path | None = DEFAULT_STORE,
    observers: Iterable[Any] = (),
    registry: Registry | None = None,
    raise_on_failure: bool = False,
    **fields: Any,
) -> Result:
    """Measure one case.

        run("torch", "resnet50", topology="1n2d", batch_size=32)
        run(RunSpec(framework="torch", model="resnet50"))
        run({"framework": "torch", "model": "resnet50"})
        run("case.toml")

    Args:
        what: A framework's name (with `model` and the fields of `RunSpec`), or a whole spec: a `RunSpec`, a mapping, or
            the path of a JSON, TOML or YAML file.
        model: The model's name, where `what` is a framework's.
        store: Where the run's directory is written as it goes; None keeps nothing.
        observers: Objects with hook implementations, see `dlperf_sdk.hookspecs`.
        registry: The plugins to choose from; those that are installed, unless given.
        raise_on_failure: Raise the failure of a case instead of returning it.
        fields: Fields of `RunSpec`, in place of those in `what`.

    Returns:
        The result; a case that failed is a result with a `failure`.

    Raises:
        UsageError: what is asked for cannot be understood, or the store cannot be written. Nothing was started.
        PluginError: a plugin that is needed does not work. Nothing was started.
        RunFailed: the case failed, and `raise_on_failure` is set.
        KeyboardInterrupt: somebody pressed Ctrl-C; everything has been ended, and finished repeats are in the store.
    """
    return _execute(spec_from(what, model, fields), None, store, observers, registry, raise_on_failure)


def rerun(
    result: Result,
    *,
    store: ResultStore | str | Path | None = DEFAULT_STORE,
    observers: Iterable[Any] = (),
    registry: Registry | None = None,
    raise_on_failure: bool = False,
) -> Result:
    """Measure the case of a result again, in the environment that its lock describes.

    Raises:
        UsageError: the result has no environment: its case failed before it had one.
        PluginError, RunFailed, KeyboardInterrupt: as `run` does.
    """
    if result.environment is None:
        raise UsageError(f"The result {result.id} has no environment to repeat it in; run its spec instead.")
    return _execute(result.spec, result.environment, store, observers, registry, raise_on_failure)


def dry_run(
    what: str | RunSpec | Mapping[str, Any] | Path,
    model: str | None = None,
    *,
    registry: Registry | None = None,
    **fields: Any,
) -> Plan:
    """What `run` would do, decided but not done: nothing is created or started.

    Raises:
        UsageError, PluginError: as `run` does.
        Unsupported, Unavailable: the case cannot be run.
    """
    return make_plan(spec_from(what, model, fields), registry or Registry())


def spec_from(
    what: str | RunSpec | Mapping[str, Any] | Path,
    model: str | None = None,
    fields: Mapping[str, Any] | None = None,
) -> RunSpec:
    """The run spec that the arguments of `run` describe; raises UsageError."""
    fields = dict(fields or {})
    known = [field.name for field in attrs.fields(RunSpec)]
    for name in fields:
        if name not in known:
            raise UnknownName("field of a run spec", name, known)
    if isinstance(what, str) and model is not None:
        return RunSpec(**{"framework": what, "model": model, **fields})
    if model is not None:
        raise UsageError(
            "A model's name belongs to a framework's name; a whole spec already names its model."
        )
    if isinstance(what, str | Path):
        what = RunSpec.load(what)
    spec = what if isinstance(what, RunSpec) else RunSpec.from_dict(what)
    return attrs.evolve(spec, **fields)


def _execute(
    spec: RunSpec,
    like: Environment | None,
    store: ResultStore | str | Path | None,
    observers: Iterable[Any],
    registry: Registry | None,
    raise_on_failure: bool,
) -> Result:
    """Run a spec, in its own environment or in one like another result's."""
    registry = registry or Registry()
    told = Observers(hookspecs.listeners(observers))
    measurers = registry.measurers()
    started, run_id = _now(), new_run_id(spec, datetime.now(UTC))
    planned: Plan | None = None
    environment: Environment | None = None
    interrupted = False
    refusal: RunFailed | None = None
    try:
        planned = make_plan(spec, registry)
    except RunFailed as error:
        refusal = error
    directory = _open(store, run_id)
    collected = Collector(run_id, told, directory)
    try:
        if planned is None:
            assert refusal is not None
            raise refusal
        if directory is not None:
            directory.write_spec(spec)
            directory.write_plan(planned.to_dict())
        told.tell(
            "dlperf_run_started", run_id=run_id, plan=planned, directory=directory and str(directory.path)
        )
        prepared = _prepare(planned, like, _stage(told, run_id, "environment"))
        environment = _described(planned, prepared)
        samples = data.prepare(
            spec.data,
            planned.model_options,
            planned.inputs,
            seed=spec.seed,
            on_progress=_stage_of_data(told, run_id),
        )
        request = planned.request(run_id, environment.command, spec.env, samples)
        if directory is not None:
            directory.write_environment(environment)
        with environments.in_use(prepared), tempfile.TemporaryDirectory(prefix="dlperf-") as scratch:
            packed = bundle.build(request, Path(scratch) / f"{run_id}.pyz")
            _stage(told, run_id, "bundle")(f"{len(packed.files)} files, SHA-256 {packed.digest}")
            job = Job(
                run_id, packed.path, spec.topology.nodes, spec.topology.devices_per_node, planned.device, {}
            )
            _stage(told, run_id, "launch")(f"{spec.topology.nodes} agents, placed by {spec.topology.engine}")
            with closing(events(registry.topology(spec.topology.engine), job)) as stream:
                for event in stream:
                    collected.take(event)
    except RunFailed as error:
        collected.failure = Failure(error.kind, str(error))
    except KeyboardInterrupt:
        interrupted = True
        collected.failure = Failure(
            "interrupted", "The run was interrupted; the repeats that had finished are kept."
        )
    result = summarise(
        run_id=run_id,
        spec=spec,
        plan=planned,
        environment=environment,
        repeats=collected.repeats,
        hardware=collected.hardware,
        failure=collected.failure,
        stopping=collected.stopping,
        notes=collected.notes,
        measurers=measurers,
        started_at=started,
        finished_at=_now(),
    )
    if directory is not None:
        directory.write_result(result)
    if collected.failure is not None:
        told.tell("dlperf_error", run_id=run_id, failure=collected.failure)
    told.tell("dlperf_result", run_id=run_id, result=result)
    if interrupted:
        raise KeyboardInterrupt
    return result.raise_for_status() if raise_on_failure else result


def _prepare(planned: Plan, like: Environment | None, say: Callable[[str], None]) -> PreparedEnvironment:
    """The environment to run in: the framework's own, or one like another result's."""
    spec = planned.spec
    if like is not None:
        return environments.from_lock(
            spec.framework,
            planned.device,
            like.python,
            like.lock,
            asked=planned.environment.requirements,
            uv_options=planned.environment.uv_options,
            on_progress=say,
        )
    return environments.prepare(
        spec.framework, planned.environment, planned.device, python=spec.python, env=spec.env, on_progress=say
    )


def _described(planned: Plan, prepared: PreparedEnvironment) -> Environment:
    env = planned.spec.env
    return Environment(
        kind=prepared.kind,
        python=prepared.python,
        lock=prepared.lock,
        command=prepared.command,
        variables={
            name: content for name, value in env.items() if (content := _set_to(name, value)) is not None
        },
        plugin=planned.plugin,
    )


def _set_to(name: str, value: str | None) -> str | None:
    """What a requested variable becomes: its value, or this shell's; None where the shell has none to hand on."""
    return os.environ.get(name) if value is None else value


def _stage(told: Observers, run_id: str, stage: str) -> Callable[[str], None]:
    return lambda text: told.tell("dlperf_stage", run_id=run_id, stage=stage, detail=text)


def _stage_of_data(told: Observers, run_id: str) -> Callable[[str, int, int], None]:
    return lambda what, done, total: told.tell(
        "dlperf_stage", run_id=run_id, stage="data", detail=f"{what} {done}/{total}"
    )


def _open(store: ResultStore | str | Path | None, run_id: str) -> RunDirectory | None:
    if store is None:
        return None
    return (store if isinstance(store, ResultStore) else ResultStore(Path(store))).open_run(run_id)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
